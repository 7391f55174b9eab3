"""The capture format: names, the manifest and what one request holds. See ``docs/capture-format.md``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from hsforensics.errors import HsfError
from hsforensics.states import MOST_LAYERS, WIDEST, State, is_state, state_order

if TYPE_CHECKING:
    from torch import Tensor

FORMAT: Final = "hsforensics-capture"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
REQUEST_NAME: Final = re.compile(r"request-\d{5,9}\.safetensors")
TEMPORARY: Final = re.compile(r"\.(.+)\.capture-[0-9a-z_]{8}")
"""Name of the hidden directory that a capture is written in; group 1 is the name that it would have got."""

MOST_RANKS: Final = 4096
"""No engine shares a layer among more devices."""

_LEAST_BYTES: Final = 32
"""Of a tensor in a file, be it empty: its name, dtype, shape and place in the header."""

AGAIN: Final = "capture again with hsforensics capture"
"""The remedy of every broken capture."""


@dataclass(frozen=True)
class RequestEntry:
    """One request of a capture, as the manifest lists it.

    Attributes:
        file: Name of its file in the capture.
        rows: T, the number of tokens.
        bytes: Size of the file.
        sha256: Hash of the file.
        token_ids_sha256: See ``token_ids_sha256``.
    """

    file: str
    rows: int
    bytes: int
    sha256: str
    token_ids_sha256: str


@dataclass(frozen=True, kw_only=True)
class ManifestHeader:
    """What the producer of a capture knows before the first request.

    Attributes:
        kind: ``reference``: computed by a reference model. ``live``: recorded from a serving engine.
        engine: Name of the engine, such as ``transformers``.
        engine_version: Its version.
        dtype: dtype that the states were computed and stored in: ``bfloat16``, ``float32``, ``float16``.
        device: Device that computed them, such as ``cpu`` or ``cuda:0``.
        target_path: Target model as given.
        target_wrapper: See ``hsforensics.models.target.Target``; likewise
        target_inner: and
        target_config_sha256: .
        layers: L, the number of decoder layers.
        hidden_size: H, the width of a state.
        states: The bank's states in every request, by depth.
        served: Number of served slots in every request; 0 when no engine fed a drafter.
        drafter_config_sha256: Hash of the served drafter's config.json; ``None`` without a drafter, or unknown.
        ranks: Number of tensor-parallel ranks whose served slots are recorded.
    """

    kind: Literal["reference", "live"]
    engine: str
    engine_version: str
    dtype: str
    device: str
    target_path: str
    target_wrapper: str
    target_inner: str
    target_config_sha256: str
    layers: int
    hidden_size: int
    states: tuple[State, ...]
    served: int = 0
    drafter_config_sha256: str | None = None
    ranks: int = 1


@dataclass(frozen=True, kw_only=True)
class Manifest(ManifestHeader):
    """A capture's manifest: the header, who wrote it when (UTC, ISO 8601), and its requests."""

    format: Literal["hsforensics-capture"]
    version: Literal[1]
    producer: str
    created: str
    requests: tuple[RequestEntry, ...]


@dataclass(frozen=True)
class RequestTensors:
    """One request to be written.

    Attributes:
        token_ids: [T] int64.
        positions: [T] int64.
        states: State -> [T, H], floating point; exactly the states of the header.
        served: [T, H] each, in the order that the engine feeds them to ``fc``; as many as the header says.
        fc_input: [T, n * H], the concatenation that reached the drafter, or ``None``.
        ranks: What the other ranks served, rank 1 first, each like ``served``.
    """

    token_ids: Tensor
    positions: Tensor
    states: Mapping[State, Tensor]
    served: tuple[Tensor, ...] = ()
    fc_input: Tensor | None = None
    ranks: tuple[tuple[Tensor, ...], ...] = ()


def tensor_name(state: State) -> str:
    """Name of a state's tensor in a request file: ``state.3``, ``mid.3``, ``postnorm``."""
    return f"state.{state}" if isinstance(state, int) else state.replace(":", ".")


def served_name(slot: int, rank: int = 0) -> str:
    """Name of a served slot's tensor in a request file: ``served.1``, on another rank ``rank2.served.1``."""
    return f"rank{rank}.served.{slot}" if rank else f"served.{slot}"


def token_ids_sha256(token_ids: Tensor) -> str:
    """Hash of a sequence's token ids ([T]) as little-endian int64, equal on every machine."""
    return hashlib.sha256(token_ids.cpu().numpy().astype("<i8").tobytes()).hexdigest()


def file_sha256(path: Path) -> str:
    """Hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def by_depth(states: Iterable[State]) -> tuple[State, ...]:
    """States in the order of their depth, as a manifest lists them."""
    return tuple(sorted(states, key=state_order))


def is_capture(path: Path) -> bool:
    """Whether a directory says that it is an hsforensics capture, of whatever version."""
    return f'"{FORMAT}"' in (_manifest_text(path) or "")


def _manifest_text(path: Path) -> str | None:
    try:
        return (path / MANIFEST).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def read_manifest(path: Path) -> Manifest:
    """The manifest of a capture directory.

    Raises:
        HsfError: ``capture-foreign``: there is none, or it is of another format or version.
    """
    from pydantic import TypeAdapter, ValidationError

    text = _manifest_text(path)
    if text is None:
        raise HsfError("capture-foreign", path, f"holds no readable {MANIFEST}, so it is no capture", AGAIN)
    try:
        manifest = TypeAdapter(Manifest).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        message = f"{place}: {first['msg']}, got {str(first['input'])[:60]!r}"
        raise HsfError("capture-foreign", path / MANIFEST, message, AGAIN) from None
    if strange := nonsense(manifest) or _strange_requests(manifest):
        raise HsfError("capture-foreign", path / MANIFEST, strange, AGAIN)
    return manifest


def nonsense(header: ManifestHeader) -> str | None:
    """What no capture can hold, in words; ``None`` for a header that makes sense.

    Numbers of strangers must not decide how long a reader works, or which checks it leaves out.
    """
    sizes = (
        ("layers", header.layers, 1, MOST_LAYERS),
        ("hidden_size", header.hidden_size, 1, WIDEST),
        ("served", header.served, 0, MOST_LAYERS),
        ("ranks", header.ranks, 1, MOST_RANKS),
    )
    for name, got, least, most in sizes:
        if not least <= got <= most:
            return f"'{name}' must lie between {least} and {most}, got {got!r:.20}"
    for state in header.states:
        if not is_state(state, header.layers):
            return f"'states' must be states of {header.layers} layers: numbers, 'postnorm', 'mid:3'; got {state!r:.60}"
    if header.states != by_depth(set(header.states)):
        return f"'states' must name each state once, by depth, got {list(header.states)!s:.60}"
    return None


def _strange_requests(manifest: Manifest) -> str | None:
    """Names, sizes and lists of requests that no capture can hold, in words."""
    tensors = 2 + len(manifest.states) + manifest.served * manifest.ranks
    seen = set[str]()
    for entry in manifest.requests:
        if not REQUEST_NAME.fullmatch(entry.file):
            return f"names a strange file {entry.file!r:.60}"
        if entry.file in seen:
            return f"names the file {entry.file} more than once"
        if entry.rows < 0 or entry.bytes < tensors * _LEAST_BYTES:
            return f"{entry.file}: {tensors} tensors of {entry.rows!r:.20} rows in {entry.bytes!r:.20} bytes cannot be"
        seen.add(entry.file)
    return None
