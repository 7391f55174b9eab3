"""Pair samples of a dump with requests of a capture: by token ids, never by name or order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hsforensics.capture.manifest import RequestEntry
from hsforensics.flows.bank import Bank
from hsforensics.flows.fingerprint_sides import SketchedSample
from hsforensics.flows.memory_bank import MemoryBank, MemoryRequest
from hsforensics.matching.align import Alignment, align
from hsforensics.matching.align_windows import PlaceIndex
from hsforensics.states import Sample

if TYPE_CHECKING:
    from torch import Tensor

_HEAD = 8  # token ids that index the requests; more are compared one by one
_NEAR = 2  # a request may have lost or gained this many tokens in front and still be found by its head


@dataclass(frozen=True)
class Pair:
    """A sample and the request with the same tokens, and which rows they share."""

    sample: Sample
    request: RequestEntry
    alignment: Alignment

    @property
    def rows(self) -> int:
        """Rows that both have."""
        return self.alignment.rows

    def ours(self, values: Tensor) -> Tensor:
        """The shared rows of something of the sample: [T, ...] -> [rows, ...]."""
        return self.alignment.ours(values)

    def theirs(self, values: Tensor) -> Tensor:
        """The shared rows of something of the request: [T', ...] -> [rows, ...]."""
        return self.alignment.theirs(values)

    def their_row(self, row: int) -> int | None:
        """The row of the request that belongs to a row of the sample, if it has one."""
        for ours, theirs, count in self.alignment.spans:
            if ours <= row < ours + count:
                return theirs + row - ours
        return None


@dataclass
class TokenIndex:
    """Finds the request whose tokens agree with a sample's.

    A capture may be truncated (``--max-tokens``), lack a cached prefix or a leading token, or be padded: in a causal
    model the rows of a prefix do not depend on what follows.
    """

    capture: Bank
    _by_key: dict[tuple[int, ...], list[int]] = field(default_factory=dict)
    _requests: list[tuple[RequestEntry, list[int]]] = field(default_factory=list)
    _places: PlaceIndex | None = None

    def __post_init__(self) -> None:
        sketched = isinstance(self.capture, MemoryBank) and self.capture.sketched
        self._places = PlaceIndex() if sketched else None
        for number, entry in enumerate(self.capture.requests):
            held = self.capture.read(entry)
            tokens = held.token_ids.tolist()
            self._requests.append((entry, tokens))
            if self._places is not None and isinstance(held, MemoryRequest) and held.places is not None:
                self._places.add(number, held.places)
            for key in set(_keys(tokens)):
                self._by_key.setdefault(key, []).append(number)

    def find(self, sample: Sample) -> Pair | None:
        """The request that shares the most rows with the sample, or ``None``; the first of equals."""
        if self._places is not None and isinstance(sample, SketchedSample) and sample.places is not None:
            shared = self._places.find(sample.places)
            return None if shared is None else Pair(sample, self._requests[shared[0]][0], shared[1])
        tokens = sample.token_ids.tolist()
        near = {number for key in _keys(tokens) for number in self._by_key.get(key, ())}
        found = list(self._pairs(sample, tokens, sorted(near)))
        if not found:  # a head that was cut off has no key in common: look everywhere
            found = list(self._pairs(sample, tokens, range(len(self._requests))))
        return max(found, key=lambda pair: pair.rows, default=None)

    def _pairs(self, sample: Sample, tokens: list[int], numbers: Iterable[int]) -> Iterator[Pair]:
        for number in numbers:
            entry, theirs = self._requests[number]
            alignment = align(tokens, theirs)
            if alignment is not None:
                yield Pair(sample, entry, alignment)


def _keys(tokens: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Stretches near both ends that two sides of one sequence are likely to share."""
    for start in range(_NEAR):
        yield tuple(tokens[start : start + _HEAD])
    yield tuple(tokens[-_HEAD:])


def pair_samples(samples: Iterable[Sample], capture: Bank) -> tuple[list[Pair], list[Sample]]:
    """Pairs for all samples that have one, and the samples that have none."""
    index = TokenIndex(capture)
    pairs: list[Pair] = []
    alone: list[Sample] = []
    for sample in samples:
        pair = index.find(sample)
        if pair is None:
            alone.append(sample)
        else:
            pairs.append(pair)
    return pairs, alone
