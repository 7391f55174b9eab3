"""Which row of one side belongs to which row of the other? Decided by token ids alone, never by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor

How: TypeAlias = Literal["same", "prefix", "padding", "leading-token", "tail", "inside", "windows"]
"""``same``: equal token ids. ``prefix``: one side ends earlier. ``padding``: what it lacks is one repeated token.
``leading-token``: one side has one more token in front (a BOS). ``tail``: one side starts later (a cached prefix).
``inside``: one side is a stretch of the other. ``windows``: stretches of a fingerprint."""

LEAST_OVERLAP = 4
"""Rows that must agree before an alignment other than a common start is believed."""


@dataclass(frozen=True)
class Alignment:
    """Rows that two sides share.

    Attributes:
        how: See ``How``.
        spans: (first row of ours, first row of theirs, number of rows) of each shared stretch.
    """

    how: How
    spans: tuple[tuple[int, int, int], ...]

    @property
    def rows(self) -> int:
        """Rows shared in all."""
        return sum(count for _, _, count in self.spans)

    def ours(self, values: Tensor) -> Tensor:
        """Our shared rows: [T, ...] -> [rows, ...]."""
        return _take(values, [(start, count) for start, _, count in self.spans])

    def theirs(self, values: Tensor) -> Tensor:
        """Their shared rows: [T', ...] -> [rows, ...]."""
        return _take(values, [(start, count) for _, start, count in self.spans])


def _take(values: Tensor, stretches: Sequence[tuple[int, int]]) -> Tensor:
    import torch

    if len(stretches) == 1:
        start, count = stretches[0]
        return values[start : start + count]
    return torch.cat([values[start : start + count] for start, count in stretches])


def align(ours: Sequence[int], theirs: Sequence[int]) -> Alignment | None:
    """Align two token sequences, or ``None`` when neither is a stretch of the other (up to one leading token)."""
    rows = min(len(ours), len(theirs))
    if not rows:
        return None
    if ours[:rows] == theirs[:rows]:
        return Alignment(_how_prefix(ours, theirs), ((0, 0, rows),))
    for skip_ours, skip_theirs in ((1, 0), (0, 1)):
        count = min(len(ours) - skip_ours, len(theirs) - skip_theirs)
        same = ours[skip_ours : skip_ours + count] == theirs[skip_theirs : skip_theirs + count]
        if count >= LEAST_OVERLAP and same:
            return Alignment("leading-token", ((skip_ours, skip_theirs, count),))
    if rows < LEAST_OVERLAP:
        return None
    if len(ours) <= len(theirs):
        start = _find(ours, theirs)
        return None if start is None else Alignment(_how_inside(start, ours, theirs), ((0, start, rows),))
    start = _find(theirs, ours)
    return None if start is None else Alignment(_how_inside(start, theirs, ours), ((start, 0, rows),))


def _how_prefix(ours: Sequence[int], theirs: Sequence[int]) -> How:
    if len(ours) == len(theirs):
        return "same"
    rest = (ours if len(ours) > len(theirs) else theirs)[min(len(ours), len(theirs)) :]
    return "padding" if len(rest) > 1 and len(set(rest)) == 1 else "prefix"


def _how_inside(start: int, short: Sequence[int], long: Sequence[int]) -> How:
    if len(set(long[:start])) == 1 and start > 1:
        return "padding"
    return "tail" if start + len(short) == len(long) else "inside"


def _find(short: Sequence[int], long: Sequence[int]) -> int | None:
    """First place where ``short`` lies in ``long``; the end is tried first."""
    last = len(long) - len(short)
    starts: list[int] = [last, *range(last)]
    for start in starts:
        if long[start] == short[0] and long[start : start + len(short)] == short:
            return start
    return None


ALIGNMENT_WORDS: dict[How, str] = {
    "same": "the same token ids",
    "prefix": "one side ends earlier",
    "padding": "one side is padded",
    "leading-token": "one side has one more token in front (a BOS?), so states of the two differ a little",
    "tail": "one side starts later (a cached prefix?)",
    "inside": "one side is a stretch of the other",
    "windows": "stretches that a fingerprint holds",
}
"""``How`` in words."""
