"""What the target's files alone can prove, and what they cannot."""

import pytest
import torch

from hsforensics.matching.cheap import CheapRows, cheap_rows, identify_cheaply, postnorm_rms
from hsforensics.matching.identify import Match
from hsforensics.states import POSTNORM, State
from tests.world import LAYERS, World, make_world


def cheaply(world: World, state: State, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Match:
    parts: list[CheapRows] = []
    for tokens, bank in zip(world.tokens, world.banks, strict=True):
        parts.append(cheap_rows((bank[state] * scale).to(dtype), world.embedding[tokens], world.gain))
    return identify_cheaply(parts)


def test_the_embedding_is_recognised_bit_for_bit() -> None:
    match = cheaply(make_world(), 0)
    assert (match.identity, match.known, match.distance) == ("exact", 0, 0.0)


def test_a_scaled_embedding_is_still_the_embedding() -> None:
    match = cheaply(make_world(), 0, scale=6.93)  # some targets multiply by sqrt(H)
    assert (match.identity, match.known) == ("match", 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_postnorm_is_recognised(dtype: torch.dtype) -> None:
    match = cheaply(make_world(), POSTNORM, dtype=dtype)
    assert (match.identity, match.known) == ("match", POSTNORM)


@pytest.mark.parametrize("state", [1, 3, LAYERS])
def test_every_other_state_stays_open_but_is_neither(state: State) -> None:
    match = cheaply(make_world(), state)
    assert (match.identity, match.state) == ("ambiguous", None)
    assert match.excluded == (0, POSTNORM)


def test_rms_is_one_in_every_row_of_an_rms_norm_and_not_before_it() -> None:
    world = make_world()
    after = postnorm_rms(world.banks[0][POSTNORM], world.gain)
    torch.testing.assert_close(after, torch.ones_like(after), rtol=1e-3, atol=1e-3)
    before = postnorm_rms(world.banks[0][LAYERS], world.gain)
    assert (before - 1).abs().median() > 0.5


def test_gains_near_zero_do_not_blow_up_the_test() -> None:
    world = make_world()
    gain = world.gain.clone()
    gain[:3] = 1e-7
    stream = world.banks[0][LAYERS]
    normed = stream / stream.square().mean(dim=1, keepdim=True).sqrt() * gain
    rms = postnorm_rms(normed.bfloat16(), gain)
    assert ((rms - 1).abs() < 0.2).all()


def test_nan_rows_are_left_out_and_nothing_left_is_unreadable() -> None:
    world = make_world()
    values = world.banks[0][0].clone()
    values[0] = float("nan")
    rows = world.embedding[world.tokens[0]]
    assert identify_cheaply([cheap_rows(values, rows, world.gain)]).tokens == len(values) - 1
    lost = cheap_rows(torch.full_like(values, float("nan")), rows, world.gain)
    assert identify_cheaply([lost]).identity == "unreadable"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_state_in_the_direction_of_the_embedding_is_not_taken_for_it(dtype: torch.dtype) -> None:
    """First layers that change little keep the cosine: 5 % of change is a cosine of 0.999."""
    world = make_world()
    rows = world.embedding[world.tokens[0]]
    step = torch.randn(rows.shape, generator=torch.Generator().manual_seed(3))
    near = rows + 0.05 * step * rows.norm(dim=1, keepdim=True) / step.norm(dim=1, keepdim=True)
    match = identify_cheaply([cheap_rows(near.to(dtype), rows.to(dtype), world.gain)])
    assert (match.known, match.excluded) == (None, (POSTNORM,))
    again = identify_cheaply([cheap_rows((6.9 * rows).to(dtype), rows.to(dtype), world.gain)])
    assert again.known == 0


def test_postnorm_comes_before_the_embedding() -> None:
    world = make_world()
    rows = world.embedding[world.tokens[0]]
    normed = rows / rows.square().mean(dim=1, keepdim=True).sqrt()
    match = identify_cheaply([cheap_rows(normed, rows, torch.ones(rows.shape[1]))])
    assert match.known == POSTNORM


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_rows_of_one_value_are_unreadable_and_no_state(value: float) -> None:
    world = make_world()
    rows = world.embedding[world.tokens[0]]
    match = identify_cheaply([cheap_rows(torch.full_like(rows, value), rows, world.gain)])
    assert match.identity == "unreadable"
