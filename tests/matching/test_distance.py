"""Distances are what their formula says, and survive what real states contain."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsforensics.matching.distance import distance_tables, median_norm, relative_distance


def test_distance_is_the_norm_of_the_difference_over_the_norm_of_the_state() -> None:
    x, s = torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([[0.0, 5.0], [1.0, 0.0]])
    expected = torch.tensor([(9 + 1) ** 0.5 / 5, 0.0])
    torch.testing.assert_close(relative_distance(x, s), expected)


def test_nearly_equal_tensors_keep_their_distance() -> None:
    """|x|^2 - 2xs + |s|^2 in fp32 would lose a difference of 1e-5 relative entirely."""
    s = torch.randn(8, 512, generator=torch.Generator().manual_seed(0)) * 100
    x = s * (1 + 1e-5)
    torch.testing.assert_close(relative_distance(x, s), torch.full((8,), 1e-5), rtol=0.05, atol=0)


def test_half_precision_is_compared_in_fp32() -> None:
    s = torch.full((1, 4), 60000.0, dtype=torch.float16)
    assert relative_distance(s * 0, s).item() == pytest.approx(1.0)  # fp16 arithmetic would overflow to inf


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_row_with_nan_or_inf_never_gets_a_finite_distance(poison: float) -> None:
    x, s = torch.ones(3, 4), torch.ones(3, 4)
    x[1, 2] = poison
    distances = relative_distance(x, s)
    assert not distances[1].isfinite()
    assert distances[[0, 2]].tolist() == [0.0, 0.0]


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 40), st.integers(1, 17), st.integers(0, 2**31))
def test_tiles_do_not_change_the_result(rows: int, width: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, s = torch.randn(rows, width, generator=generator), torch.randn(rows, width, generator=generator)
    whole = relative_distance(x, s)
    parts = torch.cat([relative_distance(x[i : i + 1], s[i : i + 1]) for i in range(rows)])
    torch.testing.assert_close(whole, parts)


def test_tables_have_a_column_for_each_state_and_read_each_state_once() -> None:
    reads = []

    def states() -> "object":
        for value in (1.0, 2.0, 4.0):
            reads.append(value)
            yield torch.full((5, 3), value)

    tables = distance_tables([torch.full((5, 3), 2.0), torch.full((5, 3), 4.0)], states())
    assert [table.shape for table in tables] == [(5, 3), (5, 3)]
    assert [int(table[0].argmin()) for table in tables] == [1, 2]
    assert reads == [1.0, 2.0, 4.0]


def test_median_norm_leaves_out_rows_that_are_not_finite() -> None:
    values = torch.tensor([[3.0, 4.0], [float("nan"), 1.0], [6.0, 8.0], [6.0, 8.0]])
    assert median_norm(values) == pytest.approx(10.0)
    assert median_norm(values[1:2]) is None
