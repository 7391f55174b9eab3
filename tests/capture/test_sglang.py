"""Replaying: how sequences are grouped into orders."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hsforensics.capture.sglang import BATCH, BATCH_TOKENS, batches


@given(st.lists(st.integers(1, 3000), max_size=30))
def test_batches_hold_every_sequence_in_order_and_keep_both_bounds(lengths: list[int]) -> None:
    sequences = [[number] * length for number, length in enumerate(lengths)]
    groups = list(batches(sequences))
    assert [sequence for _, batch in groups for sequence in batch] == sequences
    for first, batch in groups:
        assert batch[0] == sequences[first]
        assert len(batch) <= BATCH
        assert len(batch) == 1 or sum(map(len, batch)) <= BATCH_TOKENS


def test_a_sequence_above_the_bound_goes_alone() -> None:
    assert [len(batch) for _, batch in batches([[1], [2] * (BATCH_TOKENS + 1), [3]])] == [1, 1, 1]
