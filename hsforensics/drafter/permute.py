"""Reordering the channels of ``fc``: a checkpoint that computes the same from the same states in another order.

``fc`` multiplies each state with its own block of columns and adds up, so blocks and states may be permuted together.
The norms before ``fc`` go along: blocks of ``input_norm``, and the numbers of ``fc_norm.i``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsforensics.drafter.output import keep_mode
from hsforensics.errors import HsfError
from hsforensics.models.checkpoint import Checkpoint
from hsforensics.states import State, state_order

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

_JOINED = re.compile(r"(?:model\.)?(?:fc|input_norm)\.weight")
_EACH = re.compile(r"((?:model\.)?fc_norm\.)(\d+)(\.weight)")
OLD_NAMES = tuple(f"aux_norm_{part}.weight" for part in ("low", "mid", "high"))
"""Older names of ``fc_norm.0`` to ``fc_norm.2``."""


@dataclass(frozen=True)
class Move:
    """A tensor of the new checkpoint: its name, the old tensor it comes from, and whether its blocks are reordered."""

    name: str
    source: str
    blocks: bool


def ascending_order(wiring: tuple[State, ...]) -> tuple[int, ...]:
    """For each slot of the ascending wiring, the slot of ``wiring`` that holds its state."""
    return tuple(sorted(range(len(wiring)), key=lambda slot: state_order(wiring[slot])))


def moves(checkpoint: Checkpoint, order: tuple[int, ...]) -> tuple[Move, ...]:
    """Which tensors change, and how.

    Raises:
        HsfError: ``drafter-unreadable``: no ``fc``, or a width that does not divide into this many states.
    """
    found = tuple(_moves(checkpoint, order))
    if not any(move.blocks and move.name.endswith("fc.weight") for move in found):
        raise HsfError("drafter-unreadable", checkpoint.path, "its weights hold no 'fc.weight'", "use a whole drafter")
    for move in found:
        width = checkpoint.tensors[move.source].shape[-1]
        if move.blocks and width % len(order):
            message = f"tensor '{move.source}' takes {width} values, no multiple of {len(order)} states"
            raise HsfError("drafter-unreadable", checkpoint.path, message, "give the drafter's own wiring")
    return found


def permute_blocks(x: Tensor, order: tuple[int, ...]) -> Tensor:
    """Reorder the n equal blocks of the last axis: [..., n * H] -> [..., n * H]."""
    import torch

    blocks = x.chunk(len(order), dim=-1)
    return torch.cat([blocks[slot] for slot in order], dim=-1).contiguous()


def _moves(checkpoint: Checkpoint, order: tuple[int, ...]) -> Iterator[Move]:
    for name in sorted(checkpoint.tensors):
        if _JOINED.fullmatch(name):
            yield Move(name, name, blocks=True)
        elif match := _EACH.fullmatch(name):
            yield Move(name, f"{match[1]}{order[int(match[2])]}{match[3]}", blocks=False)
        elif name.rpartition("model.")[2] in OLD_NAMES:
            place = OLD_NAMES.index(name.rpartition("model.")[2])
            yield Move(name, name.replace(OLD_NAMES[place], OLD_NAMES[order[place]]), blocks=False)


def permuted(checkpoint: Checkpoint, order: tuple[int, ...]) -> dict[str, Tensor]:
    """The new tensors by name; all others stay as they are."""
    found = {move.name: (move, checkpoint.tensor(move.source)) for move in moves(checkpoint, order)}
    return {name: permute_blocks(x, order) if move.blocks else x for name, (move, x) in found.items()}


def write_permuted(checkpoint: Checkpoint, order: tuple[int, ...], directory: Path) -> tuple[str, ...]:
    """Write a checkpoint's weights anew into a directory, file by file, with the channels reordered.

    Returns:
        Names of the changed tensors.

    Raises:
        HsfError: See ``moves``; ``drafter-unsupported`` for weights in files of ``torch.save``.
    """
    from safetensors import safe_open
    from safetensors.torch import save_file

    changed = permuted(checkpoint, order)
    files = {info.file for info in checkpoint.tensors.values()}
    for file in sorted(files):
        if file.suffix != ".safetensors":
            message = f"{file.name} is no safetensors file"
            raise HsfError("drafter-unsupported", checkpoint.path, message, "convert the weights to safetensors first")
        with safe_open(file, framework="pt") as opened:
            tensors = {name: changed.get(name, opened.get_tensor(name)) for name in opened.keys()}  # noqa: SIM118
            metadata = opened.metadata()
        save_file(tensors, directory / file.name, metadata)
        keep_mode(file, directory / file.name)
    return tuple(sorted(changed))
