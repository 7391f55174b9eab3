"""Accept length: the verify steps of greedy chain serving, replayed on text that the target itself would write.

Where a text is the target's own greedy choice, serving with a drafter would emit the very same text, and each verify
step of it can be replayed from the drafter's proposals without running an engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Walk:
    """Verify steps of one sequence.

    Attributes:
        emitted: Tokens that they emit, the bonus token of each included.
        verify_steps: Their number.
        own: Counted rows whose next token is the target's own choice, of
        rows: all counted rows: those that have a next token, and loss_mask 1 at it where there is a mask.
    """

    emitted: int
    verify_steps: int
    own: int
    rows: int


def walk(proposals: list[Tensor], labels: Tensor, token_ids: Tensor, loss_mask: Tensor | None = None) -> Walk:
    """Replay greedy chain drafting with K steps, K being the number of proposals.

    A verify step at row ``t`` knows the target's states up to row ``t`` and its choice, token ``t + 1``. Its run ``r``
    is the number of leading steps k whose proposal is the target's choice at row ``t + k``; it emits ``r + 1`` tokens
    and the next one starts at row ``t + r + 1``. It is counted when rows ``t..t+K-1`` all chose the text's next token,
    so that all K steps are judged on the target's own text. Each stretch of such rows starts a walk of its own.

    Args:
        proposals: K tensors, the k-th [T - k] int64.
        labels: [T] int64, the target's choice at each row.
        token_ids: [T] int64.
        loss_mask: [T], or ``None``. It says which text the target is expected to have written, so it changes ``own``
            and ``rows``, and never the walk.
    """
    steps = len(proposals)
    chosen = labels[:-1] == token_ids[1:]  # [T - 1], row t chose token t + 1
    counted = chosen if loss_mask is None else chosen[loss_mask[1:].bool()]
    own = chosen.tolist()
    runs = _runs(proposals, labels).tolist()  # [T - steps] or fewer
    emitted = verify_steps = 0
    for start, stop in _stretches(own):
        row = start
        while row + steps <= stop:
            emitted += runs[row] + 1
            verify_steps += 1
            row += runs[row] + 1
    return Walk(emitted, verify_steps, int(counted.sum()), len(counted))


def _runs(proposals: list[Tensor], labels: Tensor) -> Tensor:
    """Leading right steps of each row that has all of them: [T - K] int64."""
    import torch

    rows = max(0, len(labels) - len(proposals))
    hits = [proposed[:rows] == labels[k : k + rows] for k, proposed in enumerate(proposals, start=1)]
    return torch.stack(hits).long().cumprod(0).sum(0)


def _stretches(own: list[bool]) -> list[tuple[int, int]]:
    """Maximal runs of true rows as half-open ranges."""
    edges = [i for i in range(len(own) + 1) if (own[i] if i < len(own) else False) != (own[i - 1] if i else False)]
    return list(zip(edges[::2], edges[1::2], strict=True))
