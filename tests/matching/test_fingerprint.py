"""Projection, choice of rows, salted tokens: the same everywhere, with the error that is stated."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsforensics.matching.counter import mix
from hsforensics.matching.distance import relative_distance
from hsforensics.matching.fingerprint import (
    DISTANCE_ERROR,
    RUN,
    WINDOWS,
    choose_windows,
    projection,
    sketch,
)


def test_the_counter_gives_the_published_numbers_of_splitmix64() -> None:
    """First outputs of SplitMix64 for seed 0 and seed 1234567, as published with its reference code."""
    assert [int(n) for n in mix(0, 3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert int(mix(1234567, 1)[0]) == 6457827717110365317
    np.testing.assert_array_equal(mix(9, 4, start=3), mix(9, 7)[3:])


def test_the_projection_is_pinned() -> None:
    """These signs must never change: stored fingerprints depend on them."""
    signs = (projection(2, 0) > 0).int()
    for row, number in enumerate((0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4)):
        assert [int(bit) for bit in signs[row]] == [(number >> column) & 1 for column in range(64)]


@pytest.mark.parametrize("width", [64, 576, 7168])
def test_distances_keep_the_stated_error(width: int) -> None:
    generator = torch.Generator().manual_seed(3)
    rows = 600
    state = torch.randn(rows, width, generator=generator)
    other = state + 0.3 * torch.randn(rows, width, generator=generator)
    signs = projection(width, 5)
    true = (other - state).norm(dim=1)
    seen = ((other - state) @ signs).norm(dim=1)
    error = (seen / true - 1).abs()
    assert float((error > DISTANCE_ERROR).float().mean()) <= 0.01
    assert float((seen / true).median()) == pytest.approx(1.0, abs=0.05)


def test_the_median_distance_of_a_fingerprint_is_that_of_the_rows() -> None:
    generator = torch.Generator().manual_seed(4)
    state = torch.randn(300, 576, generator=generator) * torch.rand(300, 1, generator=generator) * 100
    windows = choose_windows(torch.randint(0, 1000, (300,), generator=generator))
    for noise in (0.004, 0.02, 0.3):
        other = state + noise * state.norm(dim=1, keepdim=True) * torch.randn(300, 576, generator=generator) / 24
        true = float(relative_distance(other, state).median())
        seen = float(relative_distance(sketch(other, windows, 0).values, sketch(state, windows, 0).values).median())
        assert seen == pytest.approx(true, rel=0.15)


def test_dtype_does_not_matter_beyond_its_rounding() -> None:
    state = torch.randn(40, 128, generator=torch.Generator().manual_seed(0))
    whole = sketch(state, ((0, 40),), 0).values
    for dtype in (torch.bfloat16, torch.float16):
        assert float(relative_distance(sketch(state.to(dtype), ((0, 40),), 0).values, whole).max()) < 0.01


@settings(deadline=None, max_examples=30)
@given(st.integers(100, 400), st.integers(0, 80), st.booleans(), st.integers(0, 2**20))
def test_windows_follow_the_tokens_not_the_places(rows: int, first: int, leading: bool, seed: int) -> None:
    keys = torch.randint(0, 50_000, (rows,), generator=torch.Generator().manual_seed(seed))
    other = torch.cat([torch.tensor([7]), keys]) if leading else keys[first:]
    ours = {tuple(keys[start : start + count].tolist()) for start, count in choose_windows(keys)}
    theirs = {tuple(other[start : start + count].tolist()) for start, count in choose_windows(other)}
    if leading:
        assert len(ours & theirs) >= WINDOWS - 2
    elif len(other) > WINDOWS * RUN:
        inside = {w for w in ours if any(tuple(other[i : i + RUN].tolist()) == w for i in range(len(other) - RUN + 1))}
        assert len(inside & theirs) >= len(inside) - 2


def test_a_short_sequence_is_kept_whole_and_windows_never_overlap() -> None:
    assert choose_windows(torch.arange(50)) == ((0, 50),)
    assert choose_windows(torch.arange(0)) == ()
    windows = choose_windows(torch.arange(1000) % 13)
    assert len(windows) == WINDOWS
    assert all(b - a >= RUN for (a, _), (b, _) in pairwise(windows))
