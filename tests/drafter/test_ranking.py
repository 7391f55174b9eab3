"""A best run is only named for a lead that is large, certain, over many sequences, and over no neighbour."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsforensics.drafter.evaluate import SequenceScore
from hsforensics.drafter.ranking import MIN_LEAD, MIN_SEQUENCES, lead, neighbours, rank_runs
from hsforensics.drafter.summary import draft_run
from hsforensics.states import Finding, State
from tests.drafter.test_summary import score

Wiring = tuple[State, ...]

TRUTH: Wiring = (3, 15, 27)
MEASURED: dict[Wiring, list[tuple[int, int, int]]] = {
    TRUTH: [
        (199, 149, 105), (228, 196, 133), (202, 148, 75), (175, 125, 70),
        (227, 183, 133), (161, 127, 74), (164, 139, 94), (200, 152, 100),
    ],
    (4, 15, 27): [
        (200, 147, 105), (231, 196, 134), (201, 152, 76), (175, 127, 74),
        (220, 183, 132), (160, 128, 74), (162, 138, 93), (199, 155, 101),
    ],
    (3, 16, 27): [
        (198, 149, 109), (229, 200, 133), (200, 148, 72), (179, 131, 76),
        (227, 187, 137), (159, 125, 76), (161, 134, 94), (202, 150, 100),
    ],
    (1, 15, 27): [
        (202, 154, 102), (225, 192, 138), (198, 155, 82), (175, 127, 71),
        (227, 184, 133), (157, 131, 78), (163, 142, 97), (198, 155, 105),
    ],
    (0, 3, 15): [
        (47, 57, 39), (69, 71, 77), (37, 49, 38), (36, 54, 36), (58, 67, 65), (38, 47, 40), (57, 61, 48), (45, 44, 38)
    ],
}  # fmt: skip
"""Right proposals of a drafter that was trained on ``TRUTH``, by wiring: SmolLM2-135M, eight sequences, three steps of
299, 298 and 297 rows."""


def measured(wiring: Wiring, picked: tuple[int, ...] = tuple(range(8))) -> list[SequenceScore]:
    return [score(*MEASURED[wiring][i], rows=299) for i in picked]


def ranked(*runs: list[SequenceScore], wirings: list[Wiring] | None = None) -> Finding:
    named = wirings or [(10 * i, 10 * i + 1) for i in range(len(runs))]
    made = [draft_run("bank", wiring, scores, 0, {}) for wiring, scores in zip(named, runs, strict=True)]
    found = rank_runs(made, runs)
    assert found is not None
    return found


@pytest.mark.parametrize("wrong", [(4, 15, 27), (3, 16, 27), (1, 15, 27)])
@pytest.mark.parametrize("count", [2, 3, 7, 8])
def test_no_subset_of_real_sequences_calls_a_neighbour_or_the_truth_best(wrong: Wiring, count: int) -> None:
    for picked in itertools.combinations(range(8), count):
        hidden: list[Wiring] = [(1, 1, 1), (9, 9, 9)]  # names that are no neighbours: the numbers alone must do
        for names in ([TRUTH, wrong], hidden):
            found = ranked(measured(TRUTH, picked), measured(wrong, picked), wirings=names)
            assert found.code == "draft-undecided", picked


def test_embedding_first_is_told_from_the_truth_with_eight_real_sequences() -> None:
    found = ranked(measured((0, 3, 15)), measured(TRUTH), wirings=[(0, 3, 15), TRUTH])
    assert (found.code, found.where) == ("draft-best", "wiring [3, 15, 27]")
    assert "over wiring [0, 3, 15]: mean of steps +0.3270" in found.evidence


def test_one_neighbour_among_the_runs_keeps_it_undecided_and_says_over_which() -> None:
    wirings: list[Wiring] = [TRUTH, (4, 15, 27), (0, 3, 15)]
    found = ranked(*(measured(wiring) for wiring in wirings), wirings=wirings)
    assert (found.code, found.where) == ("draft-undecided", "wiring [4, 15, 27]")
    assert "one apart" in found.message
    assert "(over wiring [3, 15, 27])" in found.message
    assert "over wiring [0, 3, 15]: mean of steps +0.3" in found.evidence


@pytest.mark.parametrize("count", range(1, MIN_SEQUENCES))
def test_few_sequences_never_name_a_best_run_however_large_the_lead(count: int) -> None:
    found = ranked([score(90, 80)] * count, [score(10, 5)] * count)
    assert found.code == "draft-undecided"
    assert f"there are {count}, and {MIN_SEQUENCES} are needed" in found.message


def test_sequences_that_are_too_short_for_the_last_step_do_not_count() -> None:
    short = score(1, 0, rows=1)
    found = ranked([score(90, 80)] * 7 + [short], [score(10, 5)] * 7 + [short])
    assert "there are 7," in found.message


def test_a_small_lead_in_every_sequence_is_not_enough() -> None:
    """Paired it is certain, but a wrong wiring can have it too."""
    levels = range(10, 90, 8)
    found = ranked([score(n, n) for n in levels], [score(n - 2, n - 1) for n in levels])
    assert found.code == "draft-undecided"
    assert f"more than {MIN_LEAD}" in found.message


def test_a_lead_above_the_least_in_every_sequence_is_clear_though_sequences_differ_by_far_more() -> None:
    levels = range(10, 90, 8)
    found = ranked([score(n, n) for n in levels], [score(n - 4, n - 4) for n in levels])
    assert (found.code, found.where) == ("draft-best", "wiring [0, 1]")


def test_a_lead_that_comes_and_goes_is_undecided() -> None:
    draws = random.Random(0)  # noqa: S311 (not for secrets)
    left, right = ([score(50 + draws.randint(-20, 20), 40) for _ in range(12)] for _ in range(2))
    assert ranked(left, right).code == "draft-undecided"


def test_more_rivals_ask_for_more_certainty() -> None:
    good = [score(50 + 3 * i % 7, 50) for i in range(8)]
    bad = [score(40 + 5 * i % 11, 40) for i in range(8)]
    reaches = []
    for rivals in (1, 2, 20):
        interval = lead(good, bad, 2, rivals).interval
        assert interval is not None
        reaches.append(interval[1] - interval[0])
    assert reaches == sorted(reaches)
    assert reaches[0] < reaches[1] < reaches[2]


def test_a_lead_of_the_mean_that_loses_step_one_is_undecided() -> None:
    found = ranked([score(50, 80)] * 9, [score(60, 20)] * 9)
    assert found.code == "draft-undecided"
    assert "loses at step 1" in found.message


@pytest.mark.parametrize("first_wins", [True, False])
def test_the_order_asked_does_not_matter(first_wins: bool) -> None:
    good, bad = [score(60 + i, 50) for i in range(8)], [score(20, 10 + i) for i in range(8)]
    found = ranked(good, bad) if first_wins else ranked(bad, good)
    assert (found.code, found.where) == ("draft-best", "wiring [0, 1]" if first_wins else "wiring [10, 11]")


def test_channels_of_a_dump_have_no_neighbours() -> None:
    scores = ([score(60, 50)] * 8, [score(20, 10)] * 8)
    runs = [draft_run("channels", (i, i + 1), pile, 0, {}) for i, pile in enumerate(scores)]
    found = rank_runs(runs, scores)
    assert found is not None
    assert (found.code, found.where) == ("draft-best", "channels [0, 1]")


def test_one_run_is_not_ranked() -> None:
    assert rank_runs([draft_run("bank", (1,), [score(50)], 0, {})], [[score(50)]]) is None


@given(
    counts=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=2, max_size=12),
    rivals=st.integers(1, 9),
)
def test_the_interval_is_students_t_of_the_plain_mean_for_equally_long_sequences(
    counts: list[tuple[int, int]], rivals: int
) -> None:
    from scipy.stats import t

    found = lead([score(a) for a, _ in counts], [score(b) for _, b in counts], 1, rivals)
    differences = [(a - b) / 100 for a, b in counts]
    n = len(differences)
    mean = sum(differences) / n
    error = (sum((d - mean) ** 2 for d in differences) / (n - 1) / n) ** 0.5
    reach = t.ppf(1 - 0.025 / rivals, n - 1) * error
    assert found.value == pytest.approx(mean, abs=1e-12)
    assert found.interval == pytest.approx((mean - reach, mean + reach), abs=1e-9)


@pytest.mark.parametrize(
    ("left", "right", "near"),
    [
        ((3, 15, 27), (3, 15, 27), True),
        ((3, 15, 27), (2, 16, 28), True),
        ((3, 15, 27), (3, 15, 29), False),
        ((3, 15), (3, 15, 27), False),
        ((3, "mid:3"), (3, 4), True),
        ((3, "postnorm"), (3, "postnorm"), True),
        ((3, "postnorm"), (3, 30), False),
    ],
)
def test_neighbours_are_at_most_one_state_apart_in_every_slot(left: Wiring, right: Wiring, near: bool) -> None:
    assert neighbours(left, right) is near
    assert neighbours(right, left) is near
