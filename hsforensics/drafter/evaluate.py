"""How often the drafter's choice is the target's: counts for one sequence, since sequences are what is resampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from hsforensics.drafter.accept import Walk, walk
from hsforensics.drafter.model import choices, first_step, next_step

if TYPE_CHECKING:
    from torch import Tensor

    from hsforensics.drafter.labels import Labels
    from hsforensics.drafter.weights import DrafterWeights

Feed: TypeAlias = Literal["text", "own"]
"""Which token step k >= 2 embeds: the text's (teacher forced), or the drafter's own choice of step k-1 (serving)."""

Tally: TypeAlias = tuple[int, int]
"""(correct, positions)."""


@dataclass(frozen=True)
class StepCounts:
    """Counts of one step in one sequence; the formulas are in ``hsforensics.drafter.definitions``."""

    accuracy: Tally
    masked: Tally | None
    draft_vocab: Tally
    full_acc: Tally
    cond_acc: Tally


@dataclass(frozen=True)
class SequenceScore:
    """Everything counted in one sequence.

    Attributes:
        steps: One entry for each step.
        walk: The verify steps of greedy serving, replayed.
        broken: Rows that could not be evaluated since a state is NaN or Inf there or in an earlier row; they are
            counted as positions, and never as correct.
    """

    steps: tuple[StepCounts, ...]
    walk: Walk
    broken: int


def draft_choices(weights: DrafterWeights, token_ids: Tensor, aux: Tensor, steps: int, feed: Feed) -> list[Tensor]:
    """What the drafter proposes at each step of each row.

    Args:
        weights: The drafter.
        token_ids: [T] int64.
        aux: [T, n * Ht], the channels joined in ``fc`` order. A row that is not finite spoils itself and, as a key,
            all rows after it; rows before it are not touched.
        steps: K.
        feed: See ``Feed``.

    Returns:
        K tensors; the k-th is [T - k] int64, the proposal of step k at rows ``0..T-1-k``, -1 for spoiled rows.
    """
    import torch

    finite = aux.isfinite().all(dim=1)  # [T]
    sound = int(finite.long().cumprod(0).sum())  # rows before the first that is not finite
    clean = torch.where(finite[:, None], aux, 0)
    proposals: list[Tensor] = []
    draft = first_step(weights, token_ids[1:], clean[:-1])
    for step in range(1, min(steps, len(token_ids) - 1) + 1):
        if step > 1:
            text = token_ids[step:]  # [T - step], token t + step for row t
            own = proposals[-1][: len(text)].clamp_min(0)
            draft = next_step(weights, draft, text if feed == "text" else own)
        proposed = choices(weights, draft.normed)  # [T - step]
        proposed[sound:] = -1
        proposals.append(proposed)
    return proposals + [token_ids[:0]] * (steps - len(proposals))


def score_sequence(
    weights: DrafterWeights,
    token_ids: Tensor,
    aux: Tensor,
    labels: Labels,
    steps: int,
    feed: Feed = "text",
    loss_mask: Tensor | None = None,
) -> SequenceScore:
    """Evaluate one sequence; tensors on the weights' device, shapes as in ``draft_choices``; ``loss_mask`` is [T]."""
    import torch

    with torch.inference_mode():
        proposals = draft_choices(weights, token_ids, aux, steps, feed)
        counts = count_steps(proposals, labels, loss_mask)
    spoiled = (proposals[0] < 0) | (labels.full[1:] < 0)  # [T - 1]
    return SequenceScore(counts, walk(proposals, labels.full, token_ids, loss_mask), int(spoiled.sum()))


def count_steps(proposals: list[Tensor], labels: Labels, loss_mask: Tensor | None) -> tuple[StepCounts, ...]:
    """Compare proposals (see ``draft_choices``) with labels under an optional ``loss_mask`` [T]: one entry per step."""
    import torch

    mask = torch.ones_like(labels.full) if loss_mask is None else loss_mask
    keep = mask.bool()  # [T]
    alive = keep[1:].clone()  # [T - 1], rows whose chain is right so far, as speculators counts it
    counts = []
    for step, proposed in enumerate(proposals, start=1):
        rows = len(proposed)  # T - step
        hit, draft_hit = proposed == labels.full[step:], proposed == labels.draft[step:]  # [rows]
        kept, before = keep[step:], alive[:rows]
        alive = before & draft_hit
        right = int((alive & kept).sum())
        counts.append(
            StepCounts(
                accuracy=(int(hit.sum()), rows),
                masked=None if loss_mask is None else (int((hit & kept).sum()), int(kept.sum())),
                draft_vocab=(int(draft_hit.sum()), rows),
                full_acc=(right, int(kept.sum())),
                cond_acc=(right, int(before.sum())),
            )
        )
    return tuple(counts)
