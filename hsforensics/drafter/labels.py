"""What the target itself chooses at every row: the labels that a drafter is measured against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

NO_LABEL = -2
"""Label of a row whose state is not finite; no drafter ever proposes it."""

_LOGITS = 2**24


@dataclass(frozen=True)
class Labels:
    """Greedy choices of the target.

    Attributes:
        full: [T] int64, argmax over the whole vocabulary; row ``t`` chooses token ``t + 1``.
        draft: [T] int64, argmax over the draft vocabulary alone, as a target token id.
    """

    full: Tensor
    draft: Tensor


def target_labels(postnorm: Tensor, head: Tensor, draft_ids: Tensor) -> Labels:
    """The target's choices, computed in fp32 whatever the dtype of the states.

    Args:
        postnorm: [T, H], output of the target's final norm.
        head: [V, H], the target's output head.
        draft_ids: [D] int64, target ids of the draft vocabulary.
    """
    import torch

    full, draft = [], []
    for part in torch.split(postnorm.float(), max(1, _LOGITS // len(head))):  # [C, H]
        logits = part @ head.float().T  # [C, V]
        finite = logits.isfinite().all(dim=1)
        full.append(torch.where(finite, logits.argmax(dim=1), NO_LABEL))
        draft.append(torch.where(finite, draft_ids[logits[:, draft_ids].argmax(dim=1)], NO_LABEL))
    empty = postnorm.new_empty(0, dtype=torch.long)
    return Labels(torch.cat([empty, *full]), torch.cat([empty, *draft]))
