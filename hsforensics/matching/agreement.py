"""Rows that do not hold what the others hold: which ones are they?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsforensics.matching.identify import FARTHEST

if TYPE_CHECKING:
    from torch import Tensor

DISAGREE_SHARE = 0.05
"""More than this share of rows away from the best state is reported, and forbids the verdict ``aligned``."""

PART_SHARE = 0.2
"""A channel that fits no state holds one in part when at least this share of its rows clearly hold it."""

_FEW_TOKENS = 3
_PURE = 0.95
_LEAST = 4


@dataclass(frozen=True)
class Partly:
    """A state held by some rows only.

    Attributes:
        state: Column of the state in the tables.
        share: Share of rows that hold it.
        away: For each table, the rows [T] bool that do not.
    """

    state: int
    share: float
    away: tuple[Tensor, ...]


def rows_away(tables: Sequence[Tensor], best: int, gap: float) -> Partly:
    """Rows at least a whole gap from the best state; ``tables`` are [T, S] distances of each sequence."""
    limit = min(gap, FARTHEST)
    away = tuple((table[:, best] >= limit) for table in tables)
    return Partly(best, 1.0 - _share(away), away)


def strays(table: Tensor, partly: Partly, away: Tensor) -> Tensor:
    """Of the rows away from a state ([T] bool), those that noise does not make: far from it, or clearly another state.

    Args:
        table: [T, S] distances to every state.
        partly: Names the state.
        away: [T] bool.
    """
    others = table.clone()
    others[:, partly.state] = float("inf")
    own = table[:, partly.state]
    clear: Tensor = away & ((own >= FARTHEST) | (others.amin(dim=1) <= 0.5 * own))
    return clear


def held_in_part(tables: Sequence[Tensor]) -> Partly | None:
    """The state that most rows hold clearly (within half the distance to any other), if enough of them do."""
    import torch

    rows = torch.cat(list(tables))  # [N, S]
    nearest = rows.topk(2, dim=1, largest=False)
    clear = (nearest.values[:, 0] <= FARTHEST / 2) & (nearest.values[:, 0] <= 0.5 * nearest.values[:, 1])
    if not bool(clear.any()):
        return None
    best = int(nearest.indices[clear, 0].mode().values)
    share = float((clear & (nearest.indices[:, 0] == best)).float().mean())
    if share < PART_SHARE:
        return None
    away = []
    for table in tables:
        two = table.topk(2, dim=1, largest=False)
        holds = (two.indices[:, 0] == best) & (two.values[:, 0] <= FARTHEST / 2)
        away.append(~holds)
    return Partly(best, share, tuple(away))


def describe_rows(away: Sequence[Tensor], tokens: Sequence[Tensor]) -> str:
    """Which rows are away, in words: those of a few token ids, late ones, early ones, or scattered.

    Args:
        away: [T] bool for each sequence.
        tokens: [T] int64 for each sequence.
    """
    import torch

    bad, ids = torch.cat(list(away)), torch.cat(list(tokens))
    return _by_token(bad, ids) or _by_place(away) or f"{int(bad.sum())} rows, scattered"


def _by_token(bad: Tensor, ids: Tensor) -> str | None:
    """Rows of a few token ids: all rows of these are away and hardly any other row is."""
    import torch

    found, counts = torch.unique(ids[bad], return_counts=True)
    common = found[counts.argsort(descending=True)[:_FEW_TOKENS]]
    theirs = torch.isin(ids, common)
    hits = int((theirs & bad).sum())
    if hits < max(_LEAST, _PURE * int(bad.sum())) or hits < _PURE * int(theirs.sum()):
        return None
    names = ", ".join(str(int(token)) for token in common[: len(found)])
    return f"exactly the rows of token ids {names} (image tokens?)"


def _by_place(away: Sequence[Tensor]) -> str | None:
    """Only the last rows of each sequence, or only the first ones."""
    hit = [mask for mask in away if bool(mask.any())]
    firsts = [int(mask.int().argmax()) for mask in hit]
    if all(float(mask[first:].float().mean()) >= _PURE for mask, first in zip(hit, firsts, strict=True)):
        place = f"{len(hit)} of {len(away)} sequences"
        return f"the last rows of {place}, from row {min(firsts)} on" if any(firsts) else f"all rows of {place}"
    ends = [len(mask) - int(mask.flip(0).int().argmax()) for mask in hit]
    if all(float(mask[:end].float().mean()) >= _PURE for mask, end in zip(hit, ends, strict=True)):
        return f"the first rows of {len(hit)} of {len(away)} sequences, up to row {max(ends) - 1}"
    return None


def _share(masks: Sequence[Tensor]) -> float:
    rows = sum(len(mask) for mask in masks)
    return sum(int(mask.sum()) for mask in masks) / rows if rows else 0.0
