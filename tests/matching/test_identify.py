"""The decision between exact, match, ambiguous, none and unreadable."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hsforensics.matching.distance import distance_tables
from hsforensics.matching.identify import Match, best_state, gap_of, identify
from hsforensics.states import POSTNORM, State
from tests.world import LAYERS, World, disturb, make_world


def identified(world: World, channels: list[Tensor], seed: int = 0) -> Match:
    """Identify a channel given as one tensor [T, H] for each of the world's sequences."""
    states = world.states
    pairs = zip(channels, world.banks, strict=True)
    tables = [distance_tables([values], [bank[state] for state in states])[0] for values, bank in pairs]
    best = best_state(tables, states)
    if best is None:
        return identify(tables, states, 0.0, seed)
    bank = world.banks[0]
    return identify(tables, states, gap_of(bank[best], [bank[s] for s in states if s != best]), seed)


def noisy(world: World, state: State, noise: float) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [disturb(bank[state], noise, generator) for bank in world.banks]


@pytest.mark.parametrize("state", [0, 3, LAYERS, POSTNORM])
def test_a_copy_is_exact(state: State) -> None:
    world = make_world()
    match = identified(world, noisy(world, state, 0.0))
    assert (match.identity, match.known, match.distance, match.votes) == ("exact", state, 0.0, 1.0)
    assert match.margin == 1.0


@pytest.mark.parametrize("state", [0, 5, POSTNORM])
@pytest.mark.parametrize("noise", [0.004, 0.012, 0.05])
def test_noise_well_below_the_gap_is_a_match_never_exact(state: State, noise: float) -> None:
    world = make_world()
    match = identified(world, noisy(world, state, noise))
    assert (match.identity, match.known) == ("match", state)
    assert match.distance == pytest.approx(noise, rel=0.05)
    assert match.runner_up is not None
    assert match.runner_up > 4 * noise


def test_noise_near_the_gap_is_ambiguous_and_rests_no_verdict() -> None:
    world = make_world()  # neighbours differ by about 0.29
    match = identified(world, noisy(world, 6, 0.22))
    assert (match.identity, match.state, match.known) == ("ambiguous", 6, None)


def test_an_unrelated_tensor_is_none() -> None:
    world = make_world()
    generator = torch.Generator().manual_seed(9)
    scale = world.banks[0][6].norm() / world.banks[0][6].numel() ** 0.5
    alien = [torch.randn(bank[6].shape, generator=generator) * scale for bank in world.banks]
    match = identified(world, alien)
    assert (match.identity, match.known) == ("none", None)


def test_a_state_of_other_sequences_is_none() -> None:
    world = make_world(lengths=(40, 40))
    swapped = [world.banks[1][6], world.banks[0][6]]
    assert identified(world, swapped).identity == "none"


def test_bit_equal_states_of_the_bank_are_ambiguous_even_for_a_copy() -> None:
    world = make_world()
    for bank in world.banks:
        bank[7] = bank[6].clone()
    match = identified(world, noisy(world, 6, 0.0))
    assert (match.identity, match.known) == ("ambiguous", None)


def test_attention_sink_rows_do_not_decide() -> None:
    """Rows of a huge norm that agree with a wrong state must not outvote the other rows."""
    world = make_world()
    channels = noisy(world, 4, 0.01)
    for values, bank in zip(channels, world.banks, strict=True):
        for state in bank:
            bank[state][0] *= 150
        values[0] = bank[9][0]
    match = identified(world, channels)
    assert (match.identity, match.known) == ("match", 4)


def test_rows_with_nan_are_left_out_and_only_nan_is_unreadable() -> None:
    world = make_world()
    channels = noisy(world, 4, 0.01)
    channels[0][3] = float("nan")
    match = identified(world, channels)
    assert (match.identity, match.tokens) == ("match", sum(map(len, channels)) - 1)
    lost = identified(world, [torch.full_like(values, float("nan")) for values in channels])
    assert (lost.identity, lost.known, lost.distance) == ("unreadable", None, None)


def test_the_vote_interval_needs_two_sequences_and_holds_the_share() -> None:
    world = make_world()
    channels = noisy(world, 6, 0.4)
    match = identified(world, channels)
    assert match.votes is not None
    assert match.votes_interval is not None
    low, high = match.votes_interval
    assert low <= match.votes <= high
    single = World(world.embedding, world.gain, world.tokens[:1], world.banks[:1])
    assert identified(single, channels[:1]).votes_interval is None


@settings(deadline=None, max_examples=20)
@given(
    st.permutations(range(3)), st.sampled_from([0, 2, 11, POSTNORM]), st.sampled_from([torch.bfloat16, torch.float16])
)
def test_order_of_sequences_and_a_round_trip_in_half_precision_do_not_change_the_state(
    order: list[int], state: State, dtype: torch.dtype
) -> None:
    world = make_world()
    shuffled = World(
        world.embedding, world.gain, tuple(world.tokens[i] for i in order), tuple(world.banks[i] for i in order)
    )
    channels = [bank[state].to(dtype) for bank in shuffled.banks]
    match = identified(shuffled, channels)
    assert (match.identity, match.known) == ("match", state)
