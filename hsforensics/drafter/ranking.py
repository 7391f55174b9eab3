"""Which run is the best, and when the accuracies may say so: a lead must be large, certain and over another wiring.

A wrong wiring one state away, or even two, can score higher than the trained one on every sequence at hand, so a lead
that is merely significant proves nothing. Three rules keep ``draft-best`` for leads that only a gross miswiring gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsforensics.findings import finding
from hsforensics.states import show_wiring, state_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from hsforensics.drafter.evaluate import SequenceScore
    from hsforensics.results import DraftRun, Interval
    from hsforensics.states import Finding, State

MIN_SEQUENCES = 8
"""Distinct sequences, long enough for every step, below which no run is called the best."""

MIN_LEAD = 0.02
"""The whole interval of a lead must lie above this (mean accuracy over the steps). Measured on SmolLM2-135M with eight
sequences: wirings one or two states off led the trained one by up to 0.005, and lost by up to 0.04."""

NEAR = 1
"""Wirings whose states are pairwise at most so far apart are neighbours."""

ERROR_RATE = 0.05
"""Of all intervals of one ranking together: divided by the number of rivals (Bonferroni)."""

RULE = (
    f"draft-best needs at least {MIN_SEQUENCES} distinct sequences, and over every other run a lead of the mean "
    f"accuracy over the steps whose interval lies above {MIN_LEAD}, without losing at step 1; never over a wiring "
    "whose states are all at most one apart. Interval: paired, jackknife over sequences, Student's t, 95 % for all "
    "rivals together"
)
"""When ``draft-best`` is given, in words."""


@dataclass(frozen=True)
class Lead:
    """One run's lead over another, paired: both evaluated the same sequences.

    Attributes:
        value: Difference of the mean over the steps of ``correct / positions``.
        interval: Its interval; ``None`` with fewer than two sequences.
        sequences: Sequences that are long enough for every step.
    """

    value: float
    interval: Interval | None
    sequences: int

    def __str__(self) -> str:
        bounds = f" [{self.interval[0]:+.4f}, {self.interval[1]:+.4f}]" if self.interval else " (no interval)"
        return f"{self.value:+.4f}{bounds}"


def rank_runs(runs: Sequence[DraftRun], scores: Sequence[Sequence[SequenceScore]]) -> Finding | None:
    """Whether one run is clearly the best, by its mean accuracy over the steps; ``None`` for fewer than two runs.

    Args:
        runs: In the order asked.
        scores: For each run, its sequences' scores; all runs evaluated the same, distinct sequences.
    """
    if len(runs) < 2:
        return None
    steps = len(runs[0].accuracy)
    means = [sum(step.value for step in run.accuracy) for run in runs]
    best = max(range(len(runs)), key=means.__getitem__)
    doubts: dict[str, list[str]] = {}
    evidence = []
    for rival in range(len(runs)):
        if rival == best:
            continue
        mean, first = (lead(scores[best], scores[rival], k, len(runs) - 1) for k in (steps, 1))
        evidence.append(f"over {_name(runs[rival])}: mean of steps {mean}, step 1 {first}")
        if doubt := _doubt(runs[best], runs[rival], mean, first):
            doubts.setdefault(doubt, []).append(_name(runs[rival]))
    where, proof = _name(runs[best]), "; ".join(evidence)
    if doubts:
        said = "; ".join(f"{doubt} (over {', '.join(names)})" for doubt, names in doubts.items())
        return finding("draft-undecided", where, f"{where} scores highest, but {said}", proof)
    message = f"{where} gives the drafter a clearly higher accuracy than every other run"
    return finding("draft-best", where, message, proof)


def lead(left: Sequence[SequenceScore], right: Sequence[SequenceScore], steps: int, rivals: int) -> Lead:
    """Paired lead of ``left`` in the mean accuracy over steps 1..steps.

    The interval is Student's t on the jackknife's standard error, at level ``1 - ERROR_RATE / rivals``. A percentile
    bootstrap is too narrow here: with two sequences it asks only that both differ in the same direction.

    Args:
        left: Scores of the leader, one for each sequence, and
        right: of the rival, in the same order.
        steps: Steps that are averaged.
        rivals: Intervals that are judged together.
    """
    import numpy as np
    from scipy.stats import t

    a, b = _table(left, steps), _table(right, steps)  # [S, steps, 2] each
    whole = (a[..., 1] > 0).all(axis=1)  # sequences long enough for every step: no subset lacks positions
    a, b = a[whole], b[whole]
    count = len(a)
    if count == 0:
        return Lead(0.0, None, 0)
    totals, others = (a.sum(axis=0), b.sum(axis=0)), (a.sum(axis=0) - a, b.sum(axis=0) - b)
    value = float(_mean_accuracy(totals[0]) - _mean_accuracy(totals[1]))
    if count == 1:
        return Lead(value, None, 1)
    left_out = _mean_accuracy(others[0]) - _mean_accuracy(others[1])  # [S], each without one sequence
    error = np.sqrt((count - 1) / count * np.square(left_out - left_out.mean()).sum())
    reach = float(t.ppf(1 - ERROR_RATE / rivals / 2, count - 1) * error)
    return Lead(value, (value - reach, value + reach), count)


def neighbours(left: Sequence[State], right: Sequence[State]) -> bool:
    """Whether two wirings are so alike that no accuracy tells them apart: every slot at most ``NEAR`` states away."""
    return len(left) == len(right) and all(
        x == y or abs(state_order(x) - state_order(y)) <= NEAR for x, y in zip(left, right, strict=True)
    )


def _doubt(best: DraftRun, rival: DraftRun, mean: Lead, first: Lead) -> str | None:
    """Why the best run does not clearly beat this rival; ``None`` if it does."""
    if best.source == "bank" and neighbours(best.wiring, rival.wiring):
        return "states one apart are not told apart by accuracy, only by values (hsforensics compare)"
    if mean.sequences < MIN_SEQUENCES or mean.interval is None or first.interval is None:
        return f"of distinct sequences of enough tokens there are {mean.sequences}, and {MIN_SEQUENCES} are needed"
    if mean.interval[0] <= MIN_LEAD:
        return f"the lead is not certainly more than {MIN_LEAD}, which a wrong wiring can have by chance"
    if first.interval[1] < 0:
        return "it loses at step 1"
    return None


def _table(scores: Sequence[SequenceScore], steps: int) -> np.ndarray:
    import numpy as np

    return np.array([[count.accuracy for count in score.steps[:steps]] for score in scores], dtype=np.float64)


def _mean_accuracy(sums: np.ndarray) -> np.ndarray:
    """[..., steps, 2] sums of counts -> [...]: the ratio of each step, then the mean over steps."""
    mean: np.ndarray = (sums[..., 0] / sums[..., 1]).mean(axis=-1)
    return mean


def _name(run: DraftRun) -> str:
    return f"{'wiring' if run.source == 'bank' else 'channels'} {show_wiring(run.wiring)}"
