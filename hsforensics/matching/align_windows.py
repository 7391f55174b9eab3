"""Alignment of fingerprints: both sides hold stretches of their sequences, not all of them the same.

Equal tokens alone prove nothing, since phrases repeat. Each row knows its place in its sequence and a hash of the
tokens before it; rows belong together when one shift of places fits *all* rows that both sides hold: equal tokens, and
equal hashes wherever both have as many tokens before them. A common start, a common end and one token more in front are
tried first; any other shift needs hashes that agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from hsforensics.matching.align import LEAST_OVERLAP, Alignment, align

BEFORE = 32
"""Tokens that a row's hash covers, its own included."""


@dataclass(frozen=True)
class Places:
    """Where the rows of a fingerprint lie in their sequence.

    Attributes:
        tokens: Of each row, plain or hashed.
        rows: Place of each row in its sequence, ascending.
        contexts: Hash of the up to ``BEFORE`` tokens that end at each row.
        length: Tokens of the whole sequence.
    """

    tokens: Sequence[int]
    rows: Sequence[int]
    contexts: Sequence[int]
    length: int

    @cached_property
    def by_place(self) -> dict[int, int]:
        """Place in the sequence -> row of the fingerprint."""
        return {place: row for row, place in enumerate(self.rows)}

    @property
    def whole(self) -> bool:
        """Whether no token was left out."""
        return len(self.rows) == self.length


@dataclass(frozen=True)
class _Fit:
    """Rows that one shift brings together, and how many of them have equal hashes."""

    shift: int
    proven: int
    pairs: tuple[tuple[int, int], ...]

    def rank(self) -> tuple[int, int, int]:
        return self.proven, len(self.pairs), -abs(self.shift)


@dataclass
class PlaceIndex:
    """Finds the sequence, of a set each known by a number, that a fingerprint's rows belong to."""

    _held: dict[int, Places] = field(default_factory=dict)
    _contexts: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, number: int, places: Places) -> None:
        """Add a sequence."""
        self._held[number] = places
        for place, context in zip(places.rows, places.contexts, strict=True):
            self._contexts[context].append((number, place))

    def find(self, ours: Places) -> tuple[int, Alignment] | None:
        """The sequence that shares the most rows, and the shared rows; ``None`` when none shares any for certain."""
        found = list(self._natural(ours)) or list(self._anywhere(ours))
        if not found:
            return None
        number, fit = max(found, key=lambda item: (item[1].rank(), -item[0]))
        theirs = self._held[number]
        if ours.whole and theirs.whole and (plain := align(list(ours.tokens), list(theirs.tokens))) is not None:
            return number, plain
        same = fit.shift == 0 and ours.length == theirs.length and len(fit.pairs) == len(ours.rows) == len(theirs.rows)
        return number, Alignment("same" if same else "windows", tuple(_spans(fit.pairs, ours)))

    def _natural(self, ours: Places) -> Iterator[tuple[int, _Fit]]:
        """Fits of a common start, of a common end, and of one token more or less in front."""
        for number, theirs in self._held.items():
            for shift in {0, 1, -1, ours.length - theirs.length}:
                fit = fitting(ours, theirs, shift)
                if fit is not None and (fit.proven or len(fit.pairs) >= LEAST_OVERLAP):
                    yield number, fit

    def _anywhere(self, ours: Places) -> Iterator[tuple[int, _Fit]]:
        """Fits of any other shift that hashes propose, unless a sequence fits in several ways."""
        proposed: Counter[tuple[int, int]] = Counter()
        for place, context in zip(ours.rows, ours.contexts, strict=True):
            proposed.update((number, place - other) for number, other in self._contexts.get(context, ()))
        fits: dict[int, list[_Fit]] = defaultdict(list)
        for number, shift in proposed:
            fit = fitting(ours, self._held[number], shift)
            if fit is not None and fit.proven and len(fit.pairs) >= LEAST_OVERLAP:
                fits[number].append(fit)
        yield from ((number, found[0]) for number, found in fits.items() if len(found) == 1)


def fitting(ours: Places, theirs: Places, shift: int) -> _Fit | None:
    """What is shared when our place p is their place p - shift; ``None`` if a row contradicts, or there is none."""
    pairs, proven = [], 0
    for row, place in enumerate(ours.rows):
        other = theirs.by_place.get(place - shift)
        if other is None:
            continue
        if ours.tokens[row] != theirs.tokens[other]:
            return None
        if shift == 0 or min(place, place - shift) >= BEFORE - 1:  # both hashes cover the same tokens
            if ours.contexts[row] != theirs.contexts[other]:
                return None
            proven += 1
        pairs.append((row, other))
    return _Fit(shift, proven, tuple(pairs)) if pairs else None


def _spans(pairs: Sequence[tuple[int, int]], ours: Places) -> list[tuple[int, int, int]]:
    """Pairs of rows as (ours, theirs, rows); a span ends where the sequence is interrupted."""
    spans: list[tuple[int, int, int]] = []
    for row, other in pairs:
        start, also, count = spans[-1] if spans else (-1, -1, 0)
        if count and (row, other) == (start + count, also + count) and ours.rows[row] == ours.rows[row - 1] + 1:
            spans[-1] = (start, also, count + 1)
        else:
            spans.append((row, other, 1))
    return spans
