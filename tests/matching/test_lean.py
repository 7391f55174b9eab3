"""A channel that lies between two states is told from one that lies around its own, as noise would have it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hsforensics.matching.identify import Match, leaning
from hsforensics.matching.lean import lean_of, neighbours, strongest_lean
from hsforensics.states import State
from tools.scenes import NOISES

WIDTH, ROWS = 96, 40


def stream(seed: int = 0, layers: int = 4) -> dict[State, Tensor]:
    """A residual stream whose branches are a fifth of its norm, middle states included."""
    generator = torch.Generator().manual_seed(seed)
    value = torch.randn(ROWS, WIDTH, generator=generator)
    bank: dict[State, Tensor] = {0: value}
    for layer in range(layers):
        names: tuple[State, State] = (f"mid:{layer}", layer + 1)
        for name in names:
            value = value + 0.2 * torch.randn(ROWS, WIDTH, generator=generator)
            bank[name] = value
    return bank


BANK = stream()


def near(state: State) -> dict[State, Tensor]:
    return {known: BANK[known] for known in (state, *neighbours(state, tuple(BANK)))}


@settings(max_examples=30, deadline=None)
@given(share=st.floats(0.12, 0.49))
def test_a_blend_leans_to_the_other_state_by_its_share(share: float) -> None:
    found = strongest_lean(BANK[3].lerp(BANK["mid:2"], share), 3, near(3))
    assert found is not None
    assert found.towards == "mid:2"
    assert found.amount == pytest.approx(share, abs=1e-3)
    assert found.explained == pytest.approx(1.0, abs=1e-3)


def test_half_of_a_branch_that_is_missing_shows_in_a_bank_without_middle_states() -> None:
    bank = {state: values for state, values in BANK.items() if isinstance(state, int)}
    found = strongest_lean(BANK["mid:2"].lerp(BANK[3], 0.5), 3, bank)
    assert found is not None
    assert found.towards == 2


@pytest.mark.parametrize("noise", NOISES)
def test_a_round_trip_through_another_dtype_does_not_lean(noise: str) -> None:
    assert strongest_lean(NOISES[noise](BANK[3]), 3, near(3)) is None


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.floats(0.01, 0.5))
def test_noise_of_any_size_does_not_lean(seed: int, size: float) -> None:
    noise = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(seed))
    assert strongest_lean(BANK[3] + size * noise, 3, near(3)) is None


def test_rows_of_another_state_are_no_lean_of_the_others() -> None:
    values = BANK[3].clone()
    values[: ROWS // 3] = BANK[2][: ROWS // 3]
    assert strongest_lean(values, 3, near(3)) is None


def test_a_part_of_the_rows_that_leans_is_told_with_its_share() -> None:
    values = BANK[3].clone()
    values[: ROWS // 4] = BANK[3].lerp(BANK["mid:2"], 0.4)[: ROWS // 4]
    found = strongest_lean(values, 3, near(3))
    assert found is not None
    assert (found.share, found.amount) == (pytest.approx(0.25), pytest.approx(0.4, abs=1e-3))


def test_rows_without_a_number_and_rows_at_the_state_itself_are_left_out() -> None:
    values = BANK[3].lerp(BANK[2], 0.3)
    values[0] = float("nan")
    values[1] = BANK[3][1]
    assert lean_of(values, BANK[3], 2, BANK[2]).amount == pytest.approx(0.3, abs=1e-3)
    assert lean_of(BANK[3], BANK[3], 2, BANK[2]).amount == 0.0


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (0, ("mid:0", 1)),
        (2, ("mid:1", 1, "mid:2", 3)),
        (4, ("mid:3", 3)),
        ("mid:1", (1, 2)),
        ("postnorm", ()),
    ],
    ids=str,
)
def test_neighbours_in_the_stream(state: State, expected: tuple[State, ...]) -> None:
    assert neighbours(state, (*BANK, "postnorm")) == expected


def test_a_match_that_leans_is_ambiguous_and_says_how_far() -> None:
    found = strongest_lean(BANK[3].lerp(BANK["mid:2"], 0.3), 3, near(3))
    assert found is not None
    match = leaning(Match("match", state=3), found)
    assert (match.identity, match.state, match.known) == ("ambiguous", 3, None)
    assert match.note == (
        "lies 30% of the way to mid:2 in 100% of its rows, which explains 100% of their squared distance"
    )
