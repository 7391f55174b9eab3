"""The smaller judgements: assignment, partial agreement, drift, groups, other splits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsforensics.matching.agreement import describe_rows, held_in_part, rows_away
from hsforensics.matching.counterparts import assign, counterparts
from hsforensics.matching.drift import drifting
from hsforensics.matching.groups import NOTHING, OPEN, Held, group_samples, multiple, plain, transformed
from hsforensics.matching.hypotheses.case import Explanation
from hsforensics.matching.identify import Match
from hsforensics.states import State


@settings(deadline=None, max_examples=40)
@given(st.permutations(range(4)))
def test_channels_are_assigned_to_their_counterparts_whatever_their_order(order: list[int]) -> None:
    generator = torch.Generator().manual_seed(1)
    dump = [torch.randn(20, 16, generator=generator) for _ in range(4)]
    found = counterparts([(dump, [dump[slot] * 1.01 for slot in order])])
    assert [order[slot] for slot in found.order] == [0, 1, 2, 3]
    assert found.sure
    assert found.straight == (order == [0, 1, 2, 3])


def test_an_assignment_that_does_not_stand_out_is_not_sure() -> None:
    assert not assign(torch.tensor([[0.2, 0.25], [0.25, 0.2]])).sure
    assert not assign(torch.tensor([[0.9, 3.0], [3.0, 0.9]])).sure
    assert assign(torch.tensor([[0.1, 0.9], [0.9, 0.1]])).sure
    assert assign(torch.full((2, 2), float("nan"))).order == (0, 1)


def table(best: int, rows: int, distance: float = 0.02) -> torch.Tensor:
    found = torch.full((rows, 5), 0.6)
    found[:, best] = distance
    return found


def test_rows_far_from_the_best_state_are_away() -> None:
    mixed = torch.cat([table(2, 8), table(4, 2)])
    partly = rows_away([mixed], 2, gap=0.3)
    assert partly.share == pytest.approx(0.8)
    assert partly.away[0].tolist() == [False] * 8 + [True] * 2


def test_a_state_held_by_some_rows_only_is_found() -> None:
    unclear = torch.full((10, 5), 0.9)
    partly = held_in_part([torch.cat([table(3, 6), unclear])])
    assert partly is not None
    assert (partly.state, partly.share) == (3, pytest.approx(6 / 16))
    assert partly.away[0].tolist() == [False] * 6 + [True] * 10
    assert held_in_part([unclear]) is None


def test_rows_are_described_by_token_or_by_place() -> None:
    tokens = [torch.tensor([5, 9, 5, 7, 9, 9, 8, 9])]
    assert "token ids 9" in describe_rows([tokens[0] == 9], tokens)
    late = torch.tensor([False] * 5 + [True] * 3)
    assert "from row 5 on" in describe_rows([late], tokens)
    assert "up to row 2" in describe_rows([late.flip(0)], tokens)
    scattered = torch.tensor([True, False, False, True, False, True, False, False])
    assert "scattered" in describe_rows([scattered], tokens)


def at(state: State, distance: float, votes: float = 1.0) -> Match:
    return Match("match", state, distance, votes=votes)


def test_an_error_that_grows_with_depth_is_drift() -> None:
    assert [item.state for item in drifting([at(9, 0.2), at(3, 0.02), at(6, 0.1)])] == [3, 6, 9]


@pytest.mark.parametrize(
    "matches",
    [
        [at(3, 0.01), at(6, 0.011), at(9, 0.012)],  # too little
        [at(3, 0.2), at(6, 0.1), at(9, 0.05)],  # shrinks
        [at(3, 0.02), at(6, 0.2, votes=0.4)],  # not even sure of the state
        [at(3, 0.02)],
        [at("postnorm", 0.1), at(3, 0.02)],
        [at(3, 0.0), at(6, 0.0)],
    ],
)
def test_anything_else_is_no_drift(matches: list[Match]) -> None:
    assert drifting(matches) == []


def test_samples_are_grouped_by_what_they_hold_and_unknowns_join_in() -> None:
    one, other = (plain(3), plain(6)), (plain(4), plain(7))
    groups = group_samples([("a", one), ("b", other), ("c", (plain(3), OPEN)), ("d", one)])
    assert [(group.states, group.samples, group.names, group.holds) for group in groups] == [
        ((3, 6), 3, ("a", "c", "d"), ("state 3", "state 6")),
        ((4, 7), 1, ("b",), ("state 4", "state 7")),
    ]


def lagged(scale: float = 1.0, lag: int = 1) -> Held:
    return transformed(Explanation(("rows-lagged",), 3, "state 3, late", 0.0, 1.0, scale=scale, lag=lag))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (plain(3), plain(4)),
        (plain(3), lagged()),
        (plain(3), multiple(3, 1.1)),
        (plain(3), NOTHING),
        (lagged(), NOTHING),
        (lagged(), lagged(lag=-1)),
        (lagged(), lagged(scale=1.2)),
        (plain(3, sure=False), plain(4, sure=False)),
        (plain(0), Held(None, excluded=(0, "postnorm"))),
    ],
)
def test_samples_that_certainly_hold_different_things_are_never_of_one_group(one: Held, other: Held) -> None:
    assert [group.samples for group in group_samples([("a", (one,)), ("b", (other,))])] == [1, 1]
    assert one.contradicts(other)
    assert other.contradicts(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (plain(3), plain(3, sure=False)),
        (lagged(scale=1.5), lagged(scale=1.6)),  # a factor is measured with some error
        (lagged(), plain(3, sure=False)),  # near it, and not more
        (plain(3), OPEN),
        (NOTHING, OPEN),
        (NOTHING, NOTHING),
        (plain(4), Held(None, excluded=(0, "postnorm"))),
    ],
)
def test_what_a_sample_leaves_open_makes_no_group_of_its_own(one: Held, other: Held) -> None:
    assert [group.names for group in group_samples([("a", (other,)), ("b", (one,))])] == [("a", "b")]
