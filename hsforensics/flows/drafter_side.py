"""What a comparison needs of a drafter: how many states its ``fc`` takes, and the hashes that tell it apart."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from hsforensics.drafter.config import read_drafter_config
from hsforensics.errors import HsfError
from hsforensics.models.checkpoint import Checkpoint, open_checkpoint

_CODE = "drafter-unreadable"


@dataclass(frozen=True)
class DrafterSide:
    """A drafter as seen by a comparison.

    Attributes:
        fc_channels: n, the number of states that ``fc`` joins; ``None`` without weights or without a known width.
        structure_sha256: Hash of the weights' names, shapes and dtypes; ``None`` without weights.
        weights_sha256: Hash of the first row of every tensor, which training changes; ``None`` without safetensors.
    """

    path: Path
    config_sha256: str
    fc_channels: int | None
    structure_sha256: str | None
    weights_sha256: str | None = None


def read_drafter_side(path: Path, hidden_size: int | None) -> DrafterSide:
    """Read a drafter's directory; weights are optional, the config is not.

    Args:
        path: The directory.
        hidden_size: H of the target, which one state is wide.

    Raises:
        HsfError: No directory, no config, or an ``fc`` that is no whole number of states wide.
    """
    if not path.is_dir():
        raise HsfError("not-found", path, "no such drafter directory", "give the directory that holds its config.json")
    digest = read_drafter_config(path).sha256
    if not any(path.glob("*.safetensors")) and not any(path.glob("*.bin")):
        return DrafterSide(path, digest, None, None)
    weights = open_checkpoint(path, _CODE)
    channels = _fc_channels(weights, hidden_size)
    return DrafterSide(path, digest, channels, weights.structure_sha256(), _weights_sha256(weights))


def _weights_sha256(weights: Checkpoint) -> str | None:
    """Hash of every tensor's first row: cheap for large drafters, and another one after any training step."""
    import torch
    from safetensors import safe_open

    if any(info.file.suffix != ".safetensors" for info in weights.tensors.values()):
        return None
    digest = hashlib.sha256()
    for name, info in sorted(weights.tensors.items()):  # by name, however the tensors are spread over files
        with safe_open(info.file, framework="pt") as opened:
            first = opened.get_slice(name)[:1] if info.shape else opened.get_tensor(name)
            digest.update(name.encode())
            digest.update(first.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _fc_channels(weights: Checkpoint, hidden_size: int | None) -> int | None:
    names = [name for name in weights.tensors if name == "fc.weight" or name.endswith(".fc.weight")]
    if not names or hidden_size is None:
        return None
    shape = weights.tensors[names[0]].shape
    if len(shape) != 2 or 0 in shape:
        raise HsfError(_CODE, weights.path, f"{names[0]} has shape {list(shape)}, not [out, n * H]", "copy it again")
    width = shape[1]
    if width % hidden_size:
        message = f"{names[0]} takes {width} values, no multiple of the target's hidden size {hidden_size}"
        raise HsfError(_CODE, weights.path, message, "check that drafter and target belong together")
    return width // hidden_size
