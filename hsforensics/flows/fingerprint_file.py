"""The fingerprint file: one safetensors file with a JSON description, written whole or not at all, mode 0600.

Tensors of sample ``i``: ``i.keys`` [R] int64, ``i.places`` and ``i.contexts`` [R] int64 (see
``hsforensics.matching.align_windows``), ``i.unit`` [C, R, 64] fp16, ``i.norm`` [C, R] fp32 (see
``hsforensics.matching.fingerprint``), and ``i.first`` [C, R, 4] fp32, the rows' first values for the eye. Channels of a
capture are its states by depth, then its served slots.

Under a salt all of this is the content of one tensor, ``sealed`` [n] uint8 (see ``hsforensics.flows.seal``).
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
from hsforensics.flows.seal import BrokenSealError, WrongSecretError, seal, unseal
from hsforensics.matching.align_windows import Places
from hsforensics.states import State

if TYPE_CHECKING:
    from torch import Tensor


FORMAT = "hsforensics-fingerprint"
VERSION = 2
KEY = "hsforensics"
SEALED_FORMAT, SEALED = "hsforensics-fingerprint-sealed", "sealed"
_SEALED_TEXT = json.dumps({"format": SEALED_FORMAT, "version": 1})
_AGAIN = "make it again with hsforensics fingerprint"


@dataclass(frozen=True)
class Stored:
    """A sample: ``keys`` [R], ``unit`` [C, R, 64], ``norm`` [C, R], ``first`` [C, R, 4], and where the rows lie."""

    keys: Tensor
    unit: Tensor
    norm: Tensor
    first: Tensor
    places: Places

    @property
    def values(self) -> Tensor:
        """[C, R, 64] fp32: what stands for the rows."""
        found: Tensor = self.unit.float() * self.norm[..., None]
        return found


@dataclass(frozen=True)
class Described:
    """What a fingerprint file says of itself.

    Attributes:
        kind: Made from a ``dump`` or a ``capture``.
        seed: Of the projection.
        dtype: Of the dump's channels before projection; unknown in files of earlier versions, and empty for captures.
        salted: Only true in files of earlier versions, which hashed token ids but gave them away by their values.
        width: H of the rows before projection.
        names: One for each sample.
        lengths: Tokens of each sample, chosen or not.
        labels: One for each channel.
        claims: What each dump channel is said to hold.
        producer: Layout of the dump, or engine of the capture.
        claim_source: Where the claims come from.
        header: The capture's manifest header as JSON; empty for dumps.
    """

    kind: Literal["dump", "capture"]
    seed: int
    width: int
    names: tuple[str, ...]
    lengths: tuple[int, ...]
    labels: tuple[str, ...]
    claims: tuple[State | None, ...]
    producer: str
    claim_source: str | None
    header: dict[str, Any]
    dtype: str | None = None
    salted: bool = False
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


def write_fingerprint(path: Path, described: Described, samples: Sequence[Stored], salt: str | None = None) -> int:
    """Write every sample, sealed if there is a salt; returns the bytes written.

    Raises:
        HsfError: ``write-refused``: the path exists already or cannot be written.
    """
    from dataclasses import asdict

    import torch
    from safetensors.torch import save

    if path.exists() or path.is_symlink():
        raise HsfError("write-refused", path, "exists already", "remove it, or name another file")
    tensors: dict[str, Tensor] = {}
    for number, item in enumerate(samples):
        rows, contexts = torch.tensor(item.places.rows), torch.tensor(item.places.contexts)
        named = {"keys": item.keys, "places": rows, "contexts": contexts}
        named |= {"unit": item.unit, "norm": item.norm, "first": item.first}
        tensors |= {f"{number}.{name}": tensor for name, tensor in named.items()}
    data = save(tensors, metadata={KEY: json.dumps(asdict(described))})
    if salt is not None:
        hidden = torch.frombuffer(bytearray(seal(data, salt)), dtype=torch.uint8)
        data = save({SEALED: hidden}, metadata={KEY: _SEALED_TEXT})
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


def read_fingerprint(path: Path, salt: str | None = None) -> tuple[Described, list[Stored]]:
    """What the file says of itself, and every sample.

    Args:
        path: The file.
        salt: Secret that it was made under; not looked at when it was made without one.

    Raises:
        HsfError: ``usage``: made under a salt, and none or another one is given. ``capture-foreign``: torn, of another
            format or version, or of other shapes than it says.
    """
    from safetensors import SafetensorError

    try:
        text, tensors = _load(path.read_bytes())
        if SEALED in tensors:
            text, tensors = _load(_unsealed(path, tensors[SEALED], salt))
        described = _described(path, text)
        found = [_stored(path, described, number, tensors) for number in range(len(described.names))]
    except (OSError, SafetensorError) as error:
        raise HsfError("capture-foreign", path, f"is no readable fingerprint ({error})", _AGAIN) from None
    except KeyError as error:
        raise HsfError("capture-foreign", path, f"holds no tensor {error}", _AGAIN) from None
    return described, found


def _load(data: bytes) -> tuple[str, dict[str, Tensor]]:
    """The description in a file's header, and its tensors."""
    from safetensors.torch import load

    tensors = load(data)  # which has checked the header
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return header.get("__metadata__", {}).get(KEY, ""), tensors


def _unsealed(path: Path, hidden: Tensor, salt: str | None) -> bytes:
    if salt is None:
        raise HsfError("usage", path, "was made under a salt", "give the same --salt")
    try:
        return unseal(hidden.numpy().tobytes(), salt)
    except WrongSecretError:
        message = "was made under another salt than the one given"
        raise HsfError("usage", path, message, "give its own --salt; make both sides under the same one") from None
    except BrokenSealError:
        raise HsfError("capture-foreign", path, "was altered after it was made", _AGAIN) from None


def _stored(path: Path, described: Described, number: int, tensors: dict[str, Tensor]) -> Stored:
    names = ("keys", "unit", "norm", "first", "places", "contexts")
    keys, unit, norm, first, rows, contexts = (tensors[f"{number}.{name}"] for name in names)
    _check_shapes(path, number, (keys, unit, norm, first), len(described.labels))
    places = _places(path, number, keys, rows, contexts, described.lengths[number])
    return Stored(keys, unit, norm, first, places)


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
    if described.salted:
        raise HsfError("capture-foreign", path, "hides no token from who has the target", f"{_AGAIN} and --salt")
    if len(described.names) != len(described.lengths):
        message = f"{len(described.lengths)} lengths for {len(described.names)} samples"
        raise HsfError("capture-foreign", path, message, _AGAIN)
    return described


def _places(path: Path, number: int, keys: Tensor, rows: Tensor, contexts: Tensor, length: int) -> Places:
    ascending = rows.ndim == 1 and bool((rows.diff() > 0).all()) and (not len(rows) or int(rows[0]) >= 0)
    if not len(keys) == len(rows) == len(contexts) or not ascending or (len(rows) and int(rows[-1]) >= length):
        message = f"sample {number}: {len(rows)} places for {len(keys)} rows of {length} tokens, or out of order"
        raise HsfError("capture-foreign", path, message, _AGAIN)
    return Places(keys.tolist(), rows.tolist(), contexts.tolist(), length)


def _check_shapes(path: Path, number: int, tensors: tuple[Tensor, Tensor, Tensor, Tensor], channels: int) -> None:
    from hsforensics.matching.fingerprint import COLUMNS, FIRST

    keys, *rest = tensors
    rows = len(keys)
    wanted = [(channels, rows, COLUMNS), (channels, rows), (channels, rows, FIRST)]
    shapes = [tuple(tensor.shape) for tensor in rest]
    if shapes != wanted:
        shown = ", ".join(map(str, shapes))
        message = f"sample {number}: shapes {shown} for {channels} channels of {rows} rows"
        raise HsfError("capture-foreign", path, message, _AGAIN)
