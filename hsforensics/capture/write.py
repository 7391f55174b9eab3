"""Writes a capture whole or not at all; see ``hsforensics.capture.store`` for the format."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import hsforensics
from hsforensics.capture.manifest import (
    FORMAT,
    MANIFEST,
    REQUEST_NAME,
    VERSION,
    Manifest,
    ManifestHeader,
    RequestEntry,
    RequestTensors,
    file_sha256,
    is_capture,
    nonsense,
    served_name,
    tensor_name,
    token_ids_sha256,
)
from hsforensics.errors import HsfError

if TYPE_CHECKING:
    from torch import Tensor


def publish_capture(
    path: Path, header: ManifestHeader, requests: Iterable[RequestTensors], *, force: bool = False
) -> None:
    """Write a capture directory; see ``hsforensics.capture.store.write_capture`` for arguments and errors."""
    refuse_occupied(path, force=force)
    entries: list[RequestEntry] = []
    with _directory_beside(path) as folder:
        for request in requests:
            tensors = _named_tensors(header, request)
            with _writing(path):
                entries.append(_write_request(folder, len(entries), tensors))
        if not entries:
            raise HsfError("nothing-compared", path, "no request was captured", "check the dumps")
        with _writing(path):
            _write_manifest(folder, header, tuple(entries))
            _sync(folder)
            _publish(folder, path, force=force)
            _sync(path.parent)


def refuse_occupied(path: Path, *, force: bool) -> None:
    """Check that a capture may be written here.

    Raises:
        HsfError: ``write-refused``: something is there, or with ``force`` something that is not purely a capture.
    """
    if not os.path.lexists(path):
        return
    if not force:
        raise HsfError("write-refused", path, "exists already", "choose another path, or --force to replace a capture")
    if path.is_symlink() or not is_capture(path) or any(not _is_ours(file.name) for file in path.iterdir()):
        raise HsfError("write-refused", path, "is not (only) a capture, so --force leaves it alone", "choose another")


def _is_ours(name: str) -> bool:
    return name == MANIFEST or REQUEST_NAME.fullmatch(name) is not None


@contextmanager
def _directory_beside(path: Path) -> Iterator[Path]:
    """A hidden 0700 directory on the destination's own file system; removed whatever happens."""
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.capture-", dir=path.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Name the destination in the operating system's refusals, such as a full disk."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError) as error:
        message = f"writing failed ({getattr(error, 'strerror', None) or error})"
        raise HsfError("write-refused", path, message, "make room, or choose another path") from error


def _write_request(folder: Path, index: int, tensors: dict[str, Tensor]) -> RequestEntry:
    from safetensors.torch import save_file

    file = folder / f"request-{index:05d}.safetensors"
    file.touch(mode=0o600)
    save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, file)
    file.chmod(0o600)
    _sync(file)
    tokens = tensors["token_ids"]
    return RequestEntry(file.name, len(tokens), file.stat().st_size, file_sha256(file), token_ids_sha256(tokens))


def _named_tensors(header: ManifestHeader, request: RequestTensors) -> dict[str, Tensor]:
    """Names and tensors of a request's file, after checking them against the header."""
    if message := nonsense(header):
        raise ValueError(message)
    rows, width = len(request.token_ids), header.hidden_size
    by_rank = (request.served, *request.ranks)
    slots = [len(served) for served in by_rank]
    if tuple(request.states) != header.states or slots != [header.served] * header.ranks:
        raise ValueError(f"states {tuple(request.states)}, slots by rank {slots}; the header says otherwise")
    wide = {tensor_name(state): tensor for state, tensor in request.states.items()}
    # a live hook hands over views of the very states that it recorded, and safetensors takes no shared storage
    for rank, served in enumerate(by_rank):
        wide |= {served_name(slot, rank): tensor.clone() for slot, tensor in enumerate(served)}
    for name, tensor in wide.items():
        if tuple(tensor.shape) != (rows, width) or not tensor.is_floating_point():
            raise ValueError(f"{name} must be float [{rows}, {width}], got {tensor.dtype} {tuple(tensor.shape)}")
    narrow = {"token_ids": request.token_ids.long(), "positions": request.positions.long()}
    for name, tensor in narrow.items():
        if tuple(tensor.shape) != (rows,):
            raise ValueError(f"{name} must be [{rows}], got {tuple(tensor.shape)}")
    return narrow | wide | ({} if request.fc_input is None else {"fc_input": request.fc_input})


def _write_manifest(folder: Path, header: ManifestHeader, entries: tuple[RequestEntry, ...]) -> None:
    from pydantic import TypeAdapter

    manifest = Manifest(
        **{name: getattr(header, name) for name in asdict(header)},
        format=FORMAT,
        version=VERSION,
        producer=f"hsforensics {hsforensics.__version__}",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        requests=entries,
    )
    file = folder / MANIFEST
    file.touch(mode=0o600)
    file.write_bytes(TypeAdapter(Manifest).dump_json(manifest, indent=2) + b"\n")
    _sync(file)


def _publish(folder: Path, path: Path, *, force: bool) -> None:
    """Give the finished directory its name; an older capture steps aside first and is removed afterwards."""
    refuse_occupied(path, force=force)
    if not path.exists():
        folder.rename(path)
        return
    with _directory_beside(path) as aside:
        old = aside / "old"
        path.rename(old)
        try:
            folder.rename(path)
        except OSError:
            old.rename(path)
            raise


def _sync(path: Path) -> None:
    """Ask the operating system to put a file's bytes, or a directory's names, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
