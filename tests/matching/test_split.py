"""Joined states that were cut wrongly: where one begins, and what the pieces are."""

import pytest
import torch

from hsforensics.matching.split import other_splits, start_of_states

ROWS, WIDTH = 20, 48
GENERATOR = torch.Generator().manual_seed(5)
STATES = [torch.randn(ROWS, WIDTH, generator=GENERATOR) * 2.0**k for k in range(6)]
JOINED = torch.cat([STATES[1], STATES[3], STATES[5]], dim=1)


@pytest.mark.parametrize("start", [0, 1, 17, 47])
def test_the_start_is_where_a_state_begins(start: int) -> None:
    assert start_of_states(JOINED.roll(start, dims=1), STATES, WIDTH) == start
    assert start_of_states(JOINED[:, (WIDTH - start) % WIDTH :], STATES, WIDTH) == start


def test_rests_narrower_than_a_state_keep_their_columns() -> None:
    cut = JOINED[:, 28:124]  # the last 20 columns of state 1, state 3, the first 28 of state 5
    splits = dict(other_splits([cut[:, :60], cut[:, 60:]], WIDTH, STATES))
    rests = "after the last 20 values of one, and the first 28 values of one more"
    pieces = splits[f"1 state of width {WIDTH} joined one after another, {rests}"]
    assert [(piece.column, piece.values.shape[1]) for piece in pieces] == [(28, 20), (0, 48), (0, 28)]
    for piece, state in zip(pieces, STATES[1::2], strict=True):
        assert torch.equal(piece.values, state[:, piece.column : piece.column + piece.values.shape[1]])
    assert f"2 states of width {WIDTH} joined one after another and rolled by 20 values" in splits


def test_a_tensor_narrower_than_a_state_has_no_other_reading() -> None:
    assert list(other_splits([JOINED[:, :20], JOINED[:, 20:40]], WIDTH, STATES)) == []


@pytest.mark.parametrize("chunks", [2, 4])
def test_joined_and_woven_states_are_read_again(chunks: int) -> None:
    states = [STATES[1], STATES[3], STATES[5]]
    wrong = JOINED.chunk(chunks, dim=1)
    woven = torch.stack(states, dim=2).flatten(1).chunk(3, dim=1)
    for channels in (wrong, woven):
        readings = [[piece.values for piece in pieces] for _, pieces in other_splits(channels, WIDTH, STATES)]
        assert any(len(found) == 3 and all(map(torch.equal, found, states)) for found in readings)
