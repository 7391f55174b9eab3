"""From counts per sequence to a run's numbers with intervals, and the comparison of several runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsforensics.drafter.evaluate import SequenceScore, StepCounts, Tally
from hsforensics.findings import finding
from hsforensics.matching.bootstrap import LEVEL, RESAMPLES, ratio_interval
from hsforensics.results import AcceptLength, DraftRun, Interval, StepAccuracy
from hsforensics.states import show_wiring

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    import numpy as np

    from hsforensics.states import Finding, State

_VARIANTS = ("masked", "draft_vocab", "full_acc", "cond_acc")


def draft_run(
    source: Literal["bank", "channels"],
    wiring: tuple[State, ...],
    scores: Sequence[SequenceScore],
    seed: int,
    definitions: dict[str, str],
) -> DraftRun:
    """Pool the sequences of one run; every step must have at least one position."""
    steps = len(scores[0].steps)
    return DraftRun(
        source=source,
        wiring=wiring,
        accuracy=tuple(_step_accuracy(k, [score.steps[k - 1] for score in scores], seed) for k in range(1, steps + 1)),
        accept_length=_accept_length(scores, seed),
        tokens=sum(score.steps[0].accuracy[1] for score in scores),
        sequences=len(scores),
        definitions=definitions,
    )


def rank_runs(runs: Sequence[DraftRun], scores: Sequence[Sequence[SequenceScore]], seed: int) -> Finding | None:
    """Whether one run is clearly the best, by its mean accuracy over the steps; ``None`` for fewer than two runs.

    A rival is beaten when the 95 % interval of the paired difference (the same sequences resampled for both) lies
    above zero for the mean over the steps, and does not lie below zero for step 1.

    Args:
        runs: In the order asked.
        scores: For each run, its sequences' scores; all runs evaluated the same sequences.
        seed: Of the resampling.
    """
    if len(runs) < 2:
        return None
    means = [sum(step.value for step in run.accuracy) / len(run.accuracy) for run in runs]
    best = max(range(len(runs)), key=means.__getitem__)
    open_rivals, evidence = [], []
    for rival in range(len(runs)):
        if rival == best:
            continue
        mean, first = (_difference(scores[best], scores[rival], steps, seed) for steps in (len(runs[0].accuracy), 1))
        evidence.append(f"over {_name(runs[rival])}: mean of steps {_show(mean)}, step 1 {_show(first)}")
        if mean[1] is None or first[1] is None or mean[1][0] <= 0 or first[1][1] < 0:
            open_rivals.append(_name(runs[rival]))
    where, proof = _name(runs[best]), "; ".join(evidence)
    if open_rivals:
        message = f"its lead over {', '.join(open_rivals)} is within the noise of these sequences"
        return finding("draft-undecided", where, message, proof)
    return finding("draft-best", where, "gives the drafter a clearly higher accuracy than every other run", proof)


def _step_accuracy(step: int, counts: Sequence[StepCounts], seed: int) -> StepAccuracy:
    parts, wholes = zip(*(count.accuracy for count in counts), strict=True)
    return StepAccuracy(
        step=step,
        value=sum(parts) / sum(wholes),
        interval=ratio_interval(parts, wholes, seed),
        correct=sum(parts),
        positions=sum(wholes),
        trainer={name: _pooled([getattr(count, name) for count in counts]) for name in _VARIANTS},
    )


def _pooled(tallies: Sequence[Tally | None]) -> float | None:
    known = [tally for tally in tallies if tally is not None]
    whole = sum(positions for _, positions in known)
    return sum(correct for correct, _ in known) / whole if whole else None


def _accept_length(scores: Sequence[SequenceScore], seed: int) -> AcceptLength:
    walks = [score.walk for score in scores]
    verify_steps, rows = sum(w.verify_steps for w in walks), sum(w.rows for w in walks)
    return AcceptLength(
        value=sum(w.emitted for w in walks) / verify_steps if verify_steps else None,
        interval=ratio_interval([w.emitted for w in walks], [w.verify_steps for w in walks], seed),
        verify_steps=verify_steps,
        on_policy=sum(w.own for w in walks) / rows,
    )


def _difference(
    left: Sequence[SequenceScore], right: Sequence[SequenceScore], steps: int, seed: int
) -> tuple[float, Interval | None]:
    """Paired difference of the mean accuracy over steps 1..steps, and its 95 % interval over sequences."""
    import numpy as np
    from scipy.stats import bootstrap

    a, b = _table(left, steps), _table(right, steps)  # [S, steps, 2] each
    whole = (a[..., 1] > 0).all(axis=1)  # sequences long enough for every step: no resample lacks positions
    a, b = a[whole], b[whole]

    def statistic(picked: np.ndarray, axis: int = -1) -> np.ndarray:
        rows = np.moveaxis(picked, axis, 0)  # [S, ...] sequence numbers
        return np.asarray(_mean_accuracy(a[rows]) - _mean_accuracy(b[rows]))

    everything = np.arange(len(a))
    difference = float(statistic(everything)) if len(a) else 0.0
    if len(a) < 2:
        return difference, None
    if np.ptp((a - b)[..., 0] / a[..., 1], axis=0).max() == 0.0:  # every resample gives nearly the same
        return difference, (difference, difference)
    found = bootstrap(
        (everything,),
        statistic,
        n_resamples=RESAMPLES,
        vectorized=True,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return difference, (float(found.low), float(found.high))


def _table(scores: Sequence[SequenceScore], steps: int) -> np.ndarray:
    import numpy as np

    return np.array([[count.accuracy for count in score.steps[:steps]] for score in scores], dtype=np.float64)


def _mean_accuracy(counts: np.ndarray) -> np.ndarray:
    """[S, ..., steps, 2] counts -> [...]: ratio of sums for each step, then the mean over steps."""
    sums = counts.sum(axis=0)  # [..., steps, 2]
    mean: np.ndarray = (sums[..., 0] / sums[..., 1]).mean(axis=-1)
    return mean


def _name(run: DraftRun) -> str:
    return f"{'wiring' if run.source == 'bank' else 'channels'} {show_wiring(run.wiring)}"


def _show(difference: tuple[float, Interval | None]) -> str:
    value, interval = difference
    return f"{value:+.4f}" + (f" [{interval[0]:+.4f}, {interval[1]:+.4f}]" if interval else " (no interval)")
