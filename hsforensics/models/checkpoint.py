"""A checkpoint directory as a lazy mapping from tensor names to tensors.

Reads ``*.safetensors`` (single file or sharded, header first, rows on demand) and ``*.bin`` or ``*.pt`` files of
``torch.save`` (``weights_only=True`` always). Knows nothing of what the tensors mean.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hsforensics.errors import HsfError
from hsforensics.models.safe_load import load_torch_file

if TYPE_CHECKING:
    from torch import Tensor

_TORCH_SUFFIXES = (".bin", ".pt", ".pth")
_NOT_WEIGHTS = ("training_args", "optimizer", "scheduler", "rng_state", "cache", "consolidated")


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor lies and what it is: shape and dtype come from the header alone."""

    file: Path
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Checkpoint:
    """Tensor names, shapes and dtypes of a model directory; data is read when asked for.

    Attributes:
        path: The directory.
        tensors: Name -> place, shape and dtype.
        code: Error code for the user's message when a file turns out to be torn.
    """

    path: Path
    tensors: dict[str, TensorInfo]
    code: str
    _loaded: dict[Path, Any] = field(default_factory=dict, repr=False, compare=False)

    def tensor(self, name: str) -> Tensor:
        """The whole tensor, on the CPU, in its stored dtype."""
        info = self.tensors[name]
        if info.file.suffix == ".safetensors":
            from safetensors import safe_open

            with safe_open(info.file, framework="pt") as file:
                found: Tensor = file.get_tensor(name)
            return found
        if info.file not in self._loaded:  # torch files come whole: one check and one load for all of their tensors
            self._loaded[info.file] = load_torch_file(info.file, self.code)
        found = self._loaded[info.file][name]
        return found

    def rows(self, name: str, indices: Tensor) -> Tensor:
        """Rows ``indices`` ([N] int64) of a tensor, [N, ...], reading only the distinct rows of a safetensors file."""
        info = self.tensors[name]
        if info.file.suffix != ".safetensors":
            return self.tensor(name)[indices]
        import torch
        from safetensors import safe_open

        distinct, place = torch.unique(indices, return_inverse=True)
        with safe_open(info.file, framework="pt") as file:
            part = file.get_slice(name)
            picked = torch.cat([part[int(row) : int(row) + 1] for row in distinct])
        return picked[place]

    def structure_sha256(self) -> str:
        """Hash of names, shapes and dtypes; equal for two configs over the same weights' structure."""
        lines = [f"{name} {info.shape} {info.dtype}" for name, info in sorted(self.tensors.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def open_checkpoint(path: Path, code: str) -> Checkpoint:
    """List the tensors of a model directory.

    Args:
        path: Directory that holds the weights.
        code: Error code for the user's message, ``target-unreadable`` or ``drafter-unreadable``.

    Raises:
        HsfError: No weights there, or a file is torn.
    """
    files = sorted(path.glob("*.safetensors")) or _torch_files(path)
    if not files:
        raise HsfError(code, path, "no *.safetensors or *.bin weights here", "point at the model's own directory")
    tensors: dict[str, TensorInfo] = {}
    for file in files:
        tensors.update(_list_tensors(file, code))
    return Checkpoint(path, tensors, code)


def read_json(path: Path, code: str) -> dict[str, object]:
    """Read a JSON object such as ``config.json``.

    Raises:
        HsfError: The file is missing, is no JSON, or holds something other than an object.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HsfError(code, path, "the file does not exist", "point at a directory that holds it") from None
    except (OSError, ValueError, RecursionError) as error:
        raise HsfError(code, path, f"not readable as JSON ({error})", "restore the file from its source") from None
    if not isinstance(data, dict):
        raise HsfError(code, path, f"holds a JSON {type(data).__name__}, not an object", "restore the file")
    return data


def _torch_files(path: Path) -> list[Path]:
    found = [file for file in sorted(path.iterdir()) if file.suffix in _TORCH_SUFFIXES] if path.is_dir() else []
    return [file for file in found if not file.name.startswith(_NOT_WEIGHTS)]


def _list_tensors(file: Path, code: str) -> dict[str, TensorInfo]:
    if file.suffix != ".safetensors":
        state = load_torch_file(file, code)
        if not isinstance(state, dict):
            raise HsfError(code, file, "holds no dictionary of tensors", "point at a directory of model weights")
        named = {name: value for name, value in state.items() if hasattr(value, "shape")}
        return {
            name: TensorInfo(file, tuple(v.shape), str(v.dtype).removeprefix("torch.")) for name, v in named.items()
        }
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
            return {name: TensorInfo(file, tuple(s.get_shape()), s.get_dtype()) for name, s in slices.items()}
    except (OSError, SafetensorError) as error:
        raise HsfError(code, file, f"not a whole safetensors file ({error})", "copy the file again") from None
