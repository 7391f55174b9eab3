"""Pooling keeps sequences apart, and a winner is only called when the paired interval says so."""

from __future__ import annotations

import random

import pytest

from hsforensics.drafter.accept import Walk
from hsforensics.drafter.evaluate import SequenceScore, StepCounts
from hsforensics.drafter.summary import draft_run, rank_runs
from hsforensics.states import Finding, State

ROWS = 100


def score(*correct: int, walk: Walk | None = None, rows: int = ROWS) -> SequenceScore:
    """A sequence with these correct counts, one for each step."""
    steps = tuple(
        StepCounts((hit, rows - k), None, (hit, rows - k), (hit, rows - k), (hit, rows - k))
        for k, hit in enumerate(correct)
    )
    return SequenceScore(steps, walk or Walk(30, 20, 90, 100), 0)


def ranked(*runs: list[SequenceScore]) -> Finding | None:
    wirings: list[tuple[State, ...]] = [(i, i + 1) for i in range(len(runs))]
    made = [draft_run("bank", wiring, scores, 0, {}) for wiring, scores in zip(wirings, runs, strict=True)]
    return rank_runs(made, runs, seed=0)


def test_accuracy_is_a_ratio_of_sums_not_a_mean_of_ratios() -> None:
    run = draft_run("bank", (1, 2), [score(90, 80), score(1, 0, rows=10)], 0, {})
    assert [(step.step, step.correct, step.positions) for step in run.accuracy] == [(1, 91, 110), (2, 80, 108)]
    assert run.accuracy[0].value == 91 / 110
    assert run.accuracy[0].trainer == {
        "masked": None,
        "draft_vocab": 91 / 110,
        "full_acc": 91 / 110,
        "cond_acc": 91 / 110,
    }
    assert (run.tokens, run.sequences) == (110, 2)


def test_accept_length_pools_tokens_and_verify_steps() -> None:
    walks = (Walk(10, 5, 40, 50), Walk(90, 30, 50, 50))
    run = draft_run("channels", (0,), [score(1, walk=walk) for walk in walks], 0, {})
    assert run.accept_length.value == 100 / 35
    assert (run.accept_length.verify_steps, run.accept_length.on_policy) == (35, 0.9)
    assert run.accept_length.interval is not None
    assert 2.0 <= run.accept_length.interval[0] <= run.accept_length.interval[1] <= 3.0


def test_text_that_the_target_never_writes_has_no_accept_length() -> None:
    run = draft_run("bank", (0,), [score(1, walk=Walk(0, 0, 3, 50)), score(1, walk=Walk(0, 0, 1, 50))], 0, {})
    assert (run.accept_length.value, run.accept_length.interval, run.accept_length.on_policy) == (None, None, 0.04)


def test_one_sequence_gives_no_interval() -> None:
    run = draft_run("bank", (0,), [score(50, 40)], 0, {})
    assert run.accuracy[0].interval is None
    assert run.accept_length.interval is None


def test_one_run_is_not_ranked() -> None:
    assert ranked([score(50, 40)]) is None


def test_a_small_lead_in_every_sequence_is_a_clear_lead() -> None:
    """Paired: the sequences differ by far more than the runs do."""
    levels = [10, 30, 50, 70, 90, 20, 40]
    found = ranked([score(level, level) for level in levels], [score(level - 3, level - 2) for level in levels])
    assert found is not None
    assert (found.code, found.where) == ("draft-best", "wiring [0, 1]")
    assert "over wiring [1, 2]" in found.evidence


@pytest.mark.parametrize("first_wins", [True, False])
def test_the_order_asked_does_not_matter(first_wins: bool) -> None:
    good, bad = [score(60, 50), score(70, 65), score(65, 60)], [score(20, 10), score(30, 20), score(10, 15)]
    found = ranked(good, bad) if first_wins else ranked(bad, good)
    assert found is not None
    assert (found.code, found.where) == ("draft-best", "wiring [0, 1]" if first_wins else "wiring [1, 2]")


def test_a_lead_that_comes_and_goes_is_undecided() -> None:
    draws = random.Random(0)  # noqa: S311 (not for secrets)
    left = [score(50 + draws.randint(-20, 20), 40) for _ in range(8)]
    right = [score(50 + draws.randint(-20, 20), 40) for _ in range(8)]
    found = ranked(left, right)
    assert found is not None
    assert found.code == "draft-undecided"


def test_one_open_rival_is_enough_to_stay_undecided() -> None:
    good = [score(60, 50), score(70, 65), score(65, 60)]
    found = ranked(good, [score(20, 10)] * 3, list(good))
    assert found is not None
    assert found.code == "draft-undecided"
    assert "[2, 3]" in found.message
    assert "[1, 2]" not in found.message


def test_a_lead_of_the_mean_that_loses_step_one_is_undecided() -> None:
    found = ranked([score(50, 80), score(51, 82), score(52, 81)], [score(60, 20), score(61, 22), score(62, 21)])
    assert found is not None
    assert found.code == "draft-undecided"


def test_without_two_sequences_nothing_is_decided() -> None:
    found = ranked([score(90, 80)], [score(10, 5)])
    assert found is not None
    assert found.code == "draft-undecided"
    assert "no interval" in found.evidence
