"""The draft vocabulary: which target token each row of the drafter's head means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsforensics.drafter.tensors import UNREADABLE, missing
from hsforensics.errors import HsfError

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

_REMEDY = "d2t must hold offsets: target id = draft id + d2t[draft id]"


def target_ids(size: int, d2t: Tensor | None, t2d: Tensor | None, vocab_size: int, path: Path) -> Tensor:
    """Target token id of every draft token: ``i + d2t[i]``.

    Args:
        size: D, rows of the drafter's head.
        d2t: [D] integer offsets; may be absent when the drafter has the target's whole vocabulary.
        t2d: [V] bool, whether a target token is in the draft vocabulary; checked against ``d2t`` where present.
        vocab_size: V, the target's.
        path: The drafter, for messages.

    Returns:
        [D] int64.

    Raises:
        HsfError: ``drafter-unreadable`` for a map that is missing, of the wrong length or dtype, out of the
            target's vocabulary, or in contradiction with ``t2d``.
    """
    import torch

    if d2t is None:
        if size != vocab_size:
            raise missing(path, "d2t")
        return torch.arange(size)
    if d2t.shape != (size,) or d2t.is_floating_point():
        got = f"tensor 'd2t' is {list(d2t.shape)} {str(d2t.dtype).removeprefix('torch.')}, must be [{size}] of integers"
        raise HsfError(UNREADABLE, path, got, _REMEDY)
    ids = torch.arange(size) + d2t.long()  # [D]
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocab_size:
        got = f"tensor 'd2t' reaches token ids {low} to {high}, the target has 0 to {vocab_size - 1}"
        raise HsfError(UNREADABLE, path, got, _REMEDY)
    _check_twin(ids, t2d, path)
    return ids


def _check_twin(ids: Tensor, t2d: Tensor | None, path: Path) -> None:
    if t2d is None:
        return
    import torch

    marked = t2d.flatten().bool().nonzero().flatten()  # [D] ascending
    distinct = torch.unique_consecutive(torch.sort(ids).values)
    if not torch.equal(marked, distinct):
        got = f"'d2t' and 't2d' name different draft vocabularies ({len(distinct)} and {len(marked)} tokens)"
        raise HsfError(UNREADABLE, path, got, "use the maps of one training run")
