"""The capture format on disk: a directory with a manifest and one safetensors file for each request.

A capture is whole or absent: everything is written into a hidden directory beside the destination, the manifest last,
and one rename makes it appear. Captures hold people's text, so files are 0600 and directories 0700. The format is
described in ``docs/capture-format.md``.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hsforensics.capture.manifest import (
    AGAIN,
    TEMPORARY,
    Manifest,
    ManifestHeader,
    RequestEntry,
    RequestTensors,
    by_depth,
    file_sha256,
    is_capture,
    read_manifest,
    served_name,
    tensor_name,
    token_ids_sha256,
)
from hsforensics.capture.write import publish_capture
from hsforensics.errors import HsfError
from hsforensics.states import Channel, State

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "Capture",
    "CapturedRequest",
    "Manifest",
    "ManifestHeader",
    "RequestEntry",
    "RequestTensors",
    "by_depth",
    "is_capture",
    "open_capture",
    "token_ids_sha256",
    "write_capture",
]


_INTEGERS = ("I64",)
_FLOATS = ("BF16", "F16", "F32", "F64", "F8_E4M3", "F8_E5M2")


@dataclass(frozen=True)
class CapturedRequest:
    """One request of a capture; tensors are read when asked for.

    Attributes:
        path: Its file.
        states: The bank's states that it holds, by depth.
        slots: Number of served slots.
        size: Number of ranks whose served slots it holds.
    """

    path: Path
    states: tuple[State, ...]
    slots: int
    size: int = 1

    @cached_property
    def token_ids(self) -> Tensor:
        """[T] int64."""
        return self._tensor("token_ids")

    @cached_property
    def positions(self) -> Tensor:
        """[T] int64: position of each row in its sequence."""
        return self._tensor("positions")

    @property
    def served(self) -> tuple[Channel, ...]:
        """What the engine fed to the drafter, slot by slot, each [T, H]; empty in a reference capture."""
        names = map(served_name, range(self.slots))
        return tuple(Channel(i, name, None, self._tensor(name)) for i, name in enumerate(names))

    @property
    def ranks(self) -> tuple[tuple[Tensor, ...], ...]:
        """What the other tensor-parallel ranks served, rank 1 first: slot by slot, each [T, H]."""
        return tuple(
            tuple(self._tensor(served_name(slot, rank)) for slot in range(self.slots)) for rank in range(1, self.size)
        )

    @property
    def fc_input(self) -> Tensor | None:
        """[T, n * H], or ``None`` where it was not recorded."""
        with _opened(self.path) as file:
            return file.get_tensor("fc_input") if "fc_input" in file.keys() else None  # noqa: SIM118 (not a dict)

    def state(self, state: State) -> Tensor:
        """One state of the bank, [T, H] in the stored dtype, on the CPU.

        Raises:
            HsfError: This capture does not hold that state (``usage``).
        """
        if state not in self.states:
            held = ", ".join(str(known) for known in self.states)
            raise HsfError("usage", self.path.parent, f"holds no state {state}, only {held}", "capture it: --middle")
        return self._tensor(tensor_name(state))

    def _tensor(self, name: str) -> Tensor:
        with _opened(self.path) as file:
            found: Tensor = file.get_tensor(name)
        return found


@dataclass(frozen=True)
class Capture:
    """A whole capture: its directory and its manifest."""

    path: Path
    manifest: Manifest
    _verified: set[str] = field(default_factory=set, repr=False, compare=False)

    @property
    def requests(self) -> tuple[RequestEntry, ...]:
        """The requests, in the order they were captured."""
        return self.manifest.requests

    def read(self, entry: RequestEntry) -> CapturedRequest:
        """Open one request: its bytes are checked against the manifest once, its tensors stay on disk.

        Raises:
            HsfError: The file is torn or altered, holds other tokens than the manifest says, or lacks a tensor, its
                shape or its kind of numbers.
        """
        file = self.path / entry.file
        if entry.file not in self._verified:
            check_request(file, entry, self.manifest)
            self._verify(entry)
        found = CapturedRequest(file, self.manifest.states, self.manifest.served, self.manifest.ranks)
        if entry.file not in self._verified and token_ids_sha256(found.token_ids) != entry.token_ids_sha256:
            raise _altered(file, "its tokens are not those whose hash the manifest gives")
        self._verified.add(entry.file)
        return found

    def verify(self) -> None:
        """Read every file whole and compare it with its recorded hash.

        Raises:
            HsfError: A file was altered (``capture-unfinished``).
        """
        for entry in self.requests:
            self._verify(entry)

    def _verify(self, entry: RequestEntry) -> None:
        if file_sha256(self.path / entry.file) != entry.sha256:
            raise _altered(self.path / entry.file, "its bytes are not those that were written")


def open_capture(path: Path) -> Capture:
    """Open a capture and check that every file is there in its recorded size; reading a request checks its bytes.

    Raises:
        HsfError: ``not-found``; ``capture-foreign`` for another format or version; ``capture-unfinished`` when it was
            interrupted, or a file is missing or altered.
    """
    _refuse_leftover(path)
    manifest = read_manifest(path)
    for entry in manifest.requests:
        _check_file(path / entry.file, entry)
    return Capture(path, manifest)


def write_capture(
    path: Path, header: ManifestHeader, requests: Iterable[RequestTensors], *, force: bool = False
) -> Capture:
    """Write a capture, holding one request in memory at a time.

    Args:
        path: The directory to create. It appears by one rename after everything in it has reached the disk.
        header: What is known before the first request.
        requests: Pulled one by one; an exception from it (``KeyboardInterrupt`` too) leaves nothing behind.
        force: Replace a capture that is already there. Anything else is never replaced.

    Raises:
        HsfError: ``write-refused`` when the destination exists or cannot be written; ``nothing-compared`` when there
            was no request.
        ValueError: A request's tensors do not fit the header: a fault of the program that captures.
    """
    publish_capture(path, header, requests, force=force)
    return open_capture(path)


def check_request(file: Path, entry: RequestEntry, header: ManifestHeader) -> None:
    """Compare the names, shapes and dtypes in a request file's header with what the manifest promises.

    Raises:
        HsfError: ``capture-unfinished``.
    """
    with _opened(file) as opened:
        held = set(opened.keys())
        for name, shape, dtypes in _wanted(entry.rows, header):
            part = opened.get_slice(name) if name in held else None
            if part is None or part.get_shape() != shape or part.get_dtype() not in dtypes:
                got = "nothing" if part is None else f"{part.get_dtype()} {part.get_shape()}"
                raise _altered(file, f"its tensor {name!r} must be {'/'.join(dtypes)} {shape}, got {got}")
        if "fc_input" in held and opened.get_slice("fc_input").get_dtype() not in _FLOATS:
            raise _altered(file, f"its tensor 'fc_input' must be {'/'.join(_FLOATS)}")


def _wanted(rows: int, header: ManifestHeader) -> Iterator[tuple[str, list[int], tuple[str, ...]]]:
    """Name, shape and dtypes of each promised tensor, one by one: a manifest may promise more than memory holds."""
    for name in ("token_ids", "positions"):
        yield name, [rows], _INTEGERS
    for state in header.states:
        yield tensor_name(state), [rows, header.hidden_size], _FLOATS
    for slot in range(header.served):
        for rank in range(header.ranks):
            yield served_name(slot, rank), [rows, header.hidden_size], _FLOATS


def _refuse_leftover(path: Path) -> None:
    if TEMPORARY.fullmatch(path.name):
        raise HsfError("capture-unfinished", path, "is the leftover of an interrupted capture", f"rm -r it and {AGAIN}")
    if path.is_dir():
        return
    if path.exists():
        raise HsfError("capture-foreign", path, "is a file, and a capture is a directory", AGAIN)
    if path.parent.is_dir():
        for sibling in path.parent.iterdir():
            name = TEMPORARY.fullmatch(sibling.name)
            if name and name[1] == path.name:
                message = f"the capture was interrupted, or still runs: it lies unfinished in {sibling.name}"
                raise HsfError("capture-unfinished", path, message, f"{AGAIN}, and remove the leftover")
    raise HsfError("not-found", path, "no such capture directory", AGAIN)


def _check_file(file: Path, entry: RequestEntry) -> None:
    try:
        status = file.lstat()
    except OSError:
        raise _altered(file, "the file is missing") from None
    if not stat.S_ISREG(status.st_mode):
        raise _altered(file, "not a regular file")
    if status.st_size != entry.bytes:
        raise _altered(file, f"{entry.bytes} bytes were written, {status.st_size} are there")


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt", device="cpu") as opened:
            yield opened
    except (OSError, SafetensorError) as error:
        raise _altered(file, f"not readable ({error})") from None


def _altered(file: Path, message: str) -> HsfError:
    return HsfError("capture-unfinished", file, message, f"copy it whole, or {AGAIN}")
