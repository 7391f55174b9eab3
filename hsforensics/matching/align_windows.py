"""Alignment of fingerprints: both sides hold stretches of their sequences, not all of them the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hsforensics.matching.align import Alignment

GRAM = 6
"""Consecutive tokens that must agree."""


@dataclass
class GramIndex:
    """Where every stretch of ``GRAM`` tokens occurs in a set of token sequences, each known by a number."""

    _places: dict[tuple[int, ...], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, number: int, tokens: Sequence[int]) -> None:
        """Add a sequence."""
        for row in range(len(tokens) - GRAM + 1):
            self._places[tuple(tokens[row : row + GRAM])].append((number, row))

    def find(self, tokens: Sequence[int]) -> tuple[int, Alignment] | None:
        """The sequence that shares the most stretches, and the shared rows; ``None`` when none shares any."""
        hits: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for row in range(len(tokens) - GRAM + 1):
            for number, other in self._places.get(tuple(tokens[row : row + GRAM]), ()):
                hits[number].append((row, other))
        if not hits:
            return None
        number = max(hits, key=lambda item: (len({row for row, _ in hits[item]}), -item))
        return number, Alignment("windows", tuple(_merge(hits[number])))


def _merge(hits: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Overlapping grams of one shift become one span; where a row fits several shifts the most common one counts."""
    found = list(hits)
    common = Counter(row - other for row, other in found)
    best: dict[int, int] = {}
    for row, other in sorted(found, key=lambda hit: -common[hit[0] - hit[1]]):
        for step in range(GRAM):
            best.setdefault(row + step, other + step)
    spans: list[tuple[int, int, int]] = []
    for row, other in sorted(best.items()):
        if spans and spans[-1][0] + spans[-1][2] == row and spans[-1][1] + spans[-1][2] == other:
            spans[-1] = (spans[-1][0], spans[-1][1], spans[-1][2] + 1)
        else:
            spans.append((row, other, 1))
    return spans
