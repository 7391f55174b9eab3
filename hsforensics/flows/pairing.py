"""Pair samples of a dump with requests of a capture: by token ids, never by name or order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hsforensics.capture.store import Capture, RequestEntry
from hsforensics.states import Sample

_HEAD = 8  # token ids that index the requests; more are compared one by one


@dataclass(frozen=True)
class Pair:
    """A sample and the request with the same tokens; ``rows`` is how many leading rows both have."""

    sample: Sample
    request: RequestEntry
    rows: int


@dataclass
class TokenIndex:
    """Finds the request whose tokens agree with a sample's from the first to the last that both have.

    A capture may be truncated (``--max-tokens``), so one side may be a prefix of the other: in a causal model the
    rows of a prefix do not depend on what follows.
    """

    capture: Capture
    _by_head: dict[tuple[int, ...], list[tuple[RequestEntry, list[int]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for entry in self.capture.requests:
            tokens = self.capture.read(entry).token_ids.tolist()
            self._by_head.setdefault(tuple(tokens[:_HEAD]), []).append((entry, tokens))

    def find(self, sample: Sample) -> Pair | None:
        """The request that shares the most leading rows with the sample, or ``None``."""
        tokens = sample.token_ids.tolist()
        candidates = self._by_head.get(tuple(tokens[:_HEAD]), [])
        pairs = (Pair(sample, entry, _common(tokens, theirs)) for entry, theirs in candidates)
        return max((pair for pair in pairs if pair.rows), key=lambda pair: pair.rows, default=None)


def _common(ours: list[int], theirs: list[int]) -> int:
    """Rows of the shorter side if it is a prefix of the longer, else 0."""
    rows = min(len(ours), len(theirs))
    return rows if ours[:rows] == theirs[:rows] else 0


def pair_samples(samples: Iterable[Sample], capture: Capture) -> tuple[list[Pair], list[Sample]]:
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
