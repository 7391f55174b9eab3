"""Pooling is a ratio of sums over sequences."""

from __future__ import annotations

from hsforensics.drafter.accept import Walk
from hsforensics.drafter.evaluate import SequenceScore, StepCounts
from hsforensics.drafter.summary import draft_run

ROWS = 100


def score(*correct: int, walk: Walk | None = None, rows: int = ROWS) -> SequenceScore:
    """A sequence with these correct counts, one for each step."""
    steps = tuple(
        StepCounts((hit, rows - k), None, (hit, rows - k), (hit, rows - k), (hit, rows - k))
        for k, hit in enumerate(correct)
    )
    return SequenceScore(steps, walk or Walk(30, 20, 90, 100), 0)


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


def test_without_a_single_row_that_counts_the_policy_share_is_zero() -> None:
    run = draft_run("channels", (0,), [score(1, walk=Walk(0, 0, 0, 0))], 0, {})
    assert run.accept_length.on_policy == 0.0


def test_one_sequence_gives_no_interval() -> None:
    run = draft_run("bank", (0,), [score(50, 40)], 0, {})
    assert run.accuracy[0].interval is None
    assert run.accept_length.interval is None
