"""What each act of the demo shows, in a sentence with its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from hsforensics.results import CompareResult, DraftEvalResult, DraftRun, FixConfigResult, Prediction
from hsforensics.results_demo import DemoAct
from hsforensics.states import State, show_state, show_wiring

MIN_VERIFY_STEPS = 30
"""An accept length that rests on fewer verify steps is not shown: it would be noise."""


def trainer(result: DraftEvalResult, counted: Sequence[tuple[int, int]]) -> str:
    """The trainer's number, reproduced, and what it does not prove."""
    run = result.runs[0]
    same = [(step.correct, step.positions) for step in run.accuracy] == list(counted)
    first = f"{counted[0][0]} of {counted[0][1]} at step 1"
    agreement = f"exactly what its trainer counted ({first})" if same else f"its trainer counted {first}"
    return (
        f"Right in {_accuracies(run)} of the positions: {agreement}. The drafter is healthy. Which states these "
        "channels are, the number cannot say."
    )


def belief(result: DraftEvalResult, believed: Sequence[State]) -> str:
    """What the wiring that people believed in gives."""
    run = result.runs[0]
    return (
        f"The labels read {', '.join(map(show_state, believed))}, so the config was made to serve these. Fed them, the "
        f"drafter is right in {_accuracies(run)}, accept length {_accept(run)}."
    )


def values(result: CompareResult) -> str:
    """Which labels the target's files alone refute."""
    refuted = [item for item in result.findings if item.code == "channel-mislabelled"]
    if not refuted:
        return "The target's files alone refute no label."
    first = refuted[0]
    return f"Seconds, and the story falls: {first.message}. ({first.evidence}.) Naming the states takes a bank."


def evidence(result: CompareResult) -> str:
    """Which labels lied, what the dumps hold, and what is served."""
    claimed = [record for record in result.channels if record.side == "dump" and record.claim is not None]
    lies = sum(record.claim != record.state for record in claimed)
    held = ", ".join(show_state(record.state) for record in claimed)
    return f"{lies} of {len(claimed)} labels lied: the dumps hold {held}. {_served(result)}"


def repair(result: FixConfigResult) -> str:
    """The edit."""
    return f"{result.after.engine}: {_ids(result.before)} become {_ids(result.after)}, which serve {_states(result)}."


def proof(result: DraftEvalResult) -> str:
    """Both wirings, side by side."""
    before, after = result.runs
    return (
        f"{show_wiring(before.wiring)} to {show_wiring(after.wiring)}: {_percent(before)} become {_percent(after)} at "
        f"step 1, accept length {_accept(before, note=False)} becomes {_accept(after)}. (The dumps' own states give "
        "the trainer's numbers; those of a bank round differently in bf16.)"
    )


def measured(result: CompareResult) -> str:
    """The verdict on the repaired serving."""
    return f"{_served(result)} The verdict: {result.verdict}."


def summary(acts: Sequence[DemoAct]) -> tuple[str, str]:
    """What was wrong, and what the repair is worth."""
    results = {act.name: act.result for act in acts}
    compared, fixed, proved = results["evidence"], results["repair"], results["proof"]
    assert isinstance(compared, CompareResult)  # noqa: S101 (for the type checker, as the next two)
    assert isinstance(fixed, FixConfigResult)  # noqa: S101
    assert isinstance(proved, DraftEvalResult)  # noqa: S101
    before, after = proved.runs
    verb = "would be" if compared.served_wiring is None else "was"
    wrong = (
        f"Wrong: the labels. Trained on states {show_wiring(compared.trained_wiring)}, the drafter {verb} served "
        f"{show_wiring(before.wiring)}: accuracy {_percent(before)} instead of {_percent(after)}."
    )
    how = "measured" if "measured" in results else "predicted"
    right = (
        f"Repaired: {_ids(fixed.before)} -> {list(fixed.after.ids or ())} serve {_states(fixed)} ({how}); "
        f"{_gain(before, after)}."
    )
    return wrong, right


def _served(result: CompareResult) -> str:
    origin = result.provenance
    if result.served_wiring is not None:
        return f"Measured on {origin.engine} {origin.engine_version}: served were {show_wiring(result.served_wiring)}."
    if result.predicted is not None:
        predicted = result.predicted
        return (
            f"The config's {_ids(predicted)} make {predicted.engine} serve {show_wiring(predicted.states)} (predicted)."
        )
    return "What is served is not known."


def _states(result: FixConfigResult) -> str:
    return show_wiring(result.after.states)


def _ids(predicted: Prediction) -> str:
    return "no ids" if predicted.ids is None else f"ids {list(predicted.ids)}"


def _accuracies(run: DraftRun) -> str:
    return " / ".join(f"{step.value:.1%}" for step in run.accuracy) + f" (steps 1 to {len(run.accuracy)})"


def _percent(run: DraftRun) -> str:
    return f"{run.accuracy[0].value:.1%}"


def _gain(before: DraftRun, after: DraftRun) -> str:
    if _too_few(before) or _too_few(after):
        return f"accuracy at step 1 {_percent(before)} -> {_percent(after)}"
    return f"accept length, bonus included, {_accept(before, note=False)} -> {_accept(after, note=False)}"


def _too_few(run: DraftRun) -> bool:
    return run.accept_length.verify_steps < MIN_VERIFY_STEPS


def _accept(run: DraftRun, *, note: bool = True) -> str:
    value = run.accept_length.value
    if value is None or _too_few(run):
        return f"not judged ({run.accept_length.verify_steps} verify steps only)"
    shown = f"{value:.2f}"
    return f"{shown} (bonus token included, predicted)" if note else shown
