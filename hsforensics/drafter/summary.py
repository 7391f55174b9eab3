"""From counts per sequence to a run's numbers with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsforensics.drafter.evaluate import SequenceScore, StepCounts, Tally
from hsforensics.matching.bootstrap import ratio_interval
from hsforensics.results import AcceptLength, DraftRun, StepAccuracy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from hsforensics.states import State

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
        on_policy=sum(w.own for w in walks) / rows if rows else 0.0,
    )
