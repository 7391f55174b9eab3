"""Try candidates under lags, with a free constant scale, and take the best one if it stands out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hsforensics.matching.distance import scaled_distance
from hsforensics.matching.hypotheses.case import Candidate, Case, Explanation, accepted

SCALE_NOISE = 0.02
"""A factor within this of 1 is no scale: rounding does as much."""

AS_WELL = 4.0
"""Other rows are explained as well within twice the distance (``accepted`` halves what a rival has), and rounding."""


@dataclass(frozen=True)
class _Try:
    distance: float
    scale: float
    lag: int
    candidate: Candidate

    @property
    def identity(self) -> tuple[object, ...]:
        """Tries of one kind, state and lag are variants, not rivals."""
        return self.candidate.kind, self.candidate.state, self.lag


def search(case: Case, candidates: Iterable[Candidate], lags: Sequence[int]) -> Explanation | None:
    """The best of all candidates under all lags, or ``None`` when none stands out."""
    tries: list[_Try] = []
    picks = {lag: case.lagged(lag) for lag in lags}
    for candidate in candidates:
        built = candidate.build()
        for lag, (ours, theirs) in picks.items():
            if len(ours):
                distance, scale = scaled_distance(case.values[ours], built[theirs])
                tries.append(_Try(distance, scale, lag, candidate))
    if not tries:
        return None
    best = min(tries, key=lambda item: item.distance)
    rivals = [item.distance for item in tries if item.identity != best.identity]
    if not accepted(best.distance, min(rivals, default=1.0), case.plain):
        return None
    return _explain(best, case.plain)


def again(case: Case, candidates: Iterable[Candidate], known: Explanation) -> Explanation | None:
    """An explanation by ``search`` of other rows of the same channel, if it explains these rows nearly as well."""
    for candidate in candidates:
        if candidate.state != known.state or not known.words.startswith(candidate.words):
            continue
        ours, theirs = case.lagged(known.lag)
        if not len(ours):
            continue
        distance, scale = scaled_distance(case.values[ours], candidate.build()[theirs])
        found = _explain(_Try(distance, scale, known.lag, candidate), case.plain)
        near = accepted(distance, AS_WELL * known.distance + SCALE_NOISE, case.plain)
        if near and found is not None and found.kinds == known.kinds:
            return found
    return None


def _explain(best: _Try, plain: float) -> Explanation | None:
    kinds = [best.candidate.kind] if best.candidate.kind else []
    words = best.candidate.words
    if best.lag:
        kinds.append("rows-lagged")
        words += f", {abs(best.lag)} row{'s'[: abs(best.lag) != 1]} {'late' if best.lag > 0 else 'early'}"
    if abs(best.scale - 1.0) > SCALE_NOISE:
        kinds.append("scaled")
        words += f", times {best.scale:.4g}"
    if not kinds:
        return None  # a plain state: identify has already said what there is to say
    return Explanation(tuple(kinds), best.candidate.state, words, best.distance, plain, scale=best.scale, lag=best.lag)
