"""The fingerprint file: one safetensors file with a JSON description, written whole or not at all, mode 0600.

Tensors of sample ``i``: ``i.keys`` [R] int64, ``i.unit`` [C, R, 64] fp16, ``i.norm`` [C, R] fp32 (see
``hsforensics.matching.fingerprint``), and ``i.first`` [C, R, 4] fp32, the rows' first values for the eye. Channels of a
capture are its states by depth, then its served slots.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hsforensics.errors import HsfError
from hsforensics.states import State

if TYPE_CHECKING:
    from torch import Tensor

    Stored = tuple[Tensor, Tensor, Tensor, Tensor]  # keys [R], unit [C, R, 64], norm [C, R], first [C, R, 4]

FORMAT = "hsforensics-fingerprint"
VERSION = 1
KEY = "hsforensics"
_AGAIN = "make it again with hsforensics fingerprint"


@dataclass(frozen=True)
class Described:
    """What a fingerprint file says of itself.

    Attributes:
        kind: Made from a ``dump`` or a ``capture``.
        seed: Of the projection.
        salted: Whether tokens are hashed under a secret.
        width: H of the rows before projection.
        names: One for each sample.
        labels: One for each channel.
        claims: What each dump channel is said to hold.
        producer: Layout of the dump, or engine of the capture.
        claim_source: Where the claims come from.
        header: The capture's manifest header as JSON; empty for dumps.
    """

    kind: Literal["dump", "capture"]
    seed: int
    salted: bool
    width: int
    names: tuple[str, ...]
    labels: tuple[str, ...]
    claims: tuple[State | None, ...]
    producer: str
    claim_source: str | None
    header: dict[str, Any]
    format: str = FORMAT
    version: int = VERSION


def is_fingerprint(path: Path) -> bool:
    """Whether a path is a fingerprint file, of whatever version."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
            size = int.from_bytes(start, "little")
            return len(start) == 8 and size < 1 << 26 and f'"{KEY}"'.encode() in file.read(size)
    except OSError:
        return False


def write_fingerprint(path: Path, described: Described, samples: Sequence[Stored]) -> int:
    """Write (keys, unit, norm, first) of every sample; returns the bytes written.

    Raises:
        HsfError: ``write-refused``: the path exists already or cannot be written.
    """
    from dataclasses import asdict

    from safetensors.torch import save

    if path.exists() or path.is_symlink():
        raise HsfError("write-refused", path, "exists already", "remove it, or name another file")
    tensors: dict[str, Tensor] = {}
    for number, (keys, unit, norm, first) in enumerate(samples):
        named = {"keys": keys, "unit": unit, "norm": norm, "first": first}
        tensors |= {f"{number}.{name}": tensor for name, tensor in named.items()}
    data = save(tensors, metadata={KEY: json.dumps(asdict(described))})
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError as error:
        raise HsfError("write-refused", path, f"cannot be written ({error.strerror})", "name another file") from None
    return len(data)


def read_fingerprint(path: Path) -> tuple[Described, list[tuple[Tensor, Tensor]]]:
    """What the file says of itself, and (keys [R], values [C, R, 64] fp32) of every sample.

    Raises:
        HsfError: ``capture-foreign``: torn, of another format or version, or of other shapes than it says.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            described = _described(path, (file.metadata() or {}).get(KEY, ""))
            found = []
            for number in range(len(described.names)):
                keys = file.get_tensor(f"{number}.keys")
                unit, norm = file.get_tensor(f"{number}.unit"), file.get_tensor(f"{number}.norm")
                _check_shapes(path, number, keys, unit, norm, len(described.labels))
                found.append((keys, unit.float() * norm[..., None]))
    except (OSError, SafetensorError) as error:
        raise HsfError("capture-foreign", path, f"is no readable fingerprint ({error})", _AGAIN) from None
    return described, found


def _described(path: Path, text: str) -> Described:
    from pydantic import TypeAdapter, ValidationError

    try:
        described = TypeAdapter(Described).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "its description"
        raise HsfError("capture-foreign", path, f"{place}: {first['msg']}", _AGAIN) from None
    if (described.format, described.version) != (FORMAT, VERSION):
        message = f"is {described.format} {described.version}, this version reads {FORMAT} {VERSION}"
        raise HsfError("capture-foreign", path, message, _AGAIN)
    return described


def _check_shapes(path: Path, number: int, keys: Tensor, unit: Tensor, norm: Tensor, channels: int) -> None:
    from hsforensics.matching.fingerprint import COLUMNS

    rows = len(keys)
    if tuple(unit.shape) != (channels, rows, COLUMNS) or tuple(norm.shape) != (channels, rows):
        message = f"sample {number}: {tuple(unit.shape)} and {tuple(norm.shape)} for {channels} channels of {rows} rows"
        raise HsfError("capture-foreign", path, message, _AGAIN)
