"""Rows are aligned by their tokens alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsforensics.matching.align import ALIGNMENT_WORDS, Alignment, align
from hsforensics.matching.align_windows import GramIndex

LONG = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]


@pytest.mark.parametrize(
    ("ours", "theirs", "how", "span"),
    [
        (LONG, LONG, "same", (0, 0, 10)),
        (LONG, LONG[:6], "prefix", (0, 0, 6)),
        (LONG[:6], LONG, "prefix", (0, 0, 6)),
        ([*LONG, 0, 0, 0], LONG, "padding", (0, 0, 10)),
        ([0, 0, 0, *LONG], LONG, "padding", (3, 0, 10)),
        ([1, *LONG], LONG, "leading-token", (1, 0, 10)),
        (LONG, [1, *LONG], "leading-token", (0, 1, 10)),
        ([1, *LONG], LONG[:5], "leading-token", (1, 0, 5)),
        (LONG, LONG[4:], "tail", (4, 0, 6)),
        (LONG[4:], LONG, "tail", (0, 4, 6)),
        (LONG, LONG[2:8], "inside", (2, 0, 6)),
        ([5], [5, 6], "prefix", (0, 0, 1)),
    ],
)
def test_known_alignments(ours: list[int], theirs: list[int], how: str, span: tuple[int, int, int]) -> None:
    found = align(ours, theirs)
    assert found is not None
    assert (found.how, found.spans) == (how, (span,))
    assert found.ours(torch.tensor(ours)).tolist() == found.theirs(torch.tensor(theirs)).tolist()
    assert found.how in ALIGNMENT_WORDS


@pytest.mark.parametrize(
    ("ours", "theirs"), [(LONG, LONG[::-1]), ([], LONG), (LONG, []), ([1, 2, 3], [9, 2, 3]), (LONG, [1, 2, *LONG[1:]])]
)
def test_strangers_and_short_overlaps_are_not_aligned(ours: list[int], theirs: list[int]) -> None:
    assert align(ours, theirs) is None


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_aligned_rows_always_have_equal_tokens(ours: list[int], theirs: list[int]) -> None:
    found = align(ours, theirs)
    if found is not None:
        assert found.rows > 0
        assert found.ours(torch.tensor(ours)).tolist() == found.theirs(torch.tensor(theirs)).tolist()


def test_several_spans_are_taken_one_after_another() -> None:
    alignment = Alignment("windows", ((0, 5, 2), (4, 0, 1)))
    assert alignment.ours(torch.arange(10)).tolist() == [0, 1, 4]
    assert alignment.theirs(torch.arange(10)).tolist() == [5, 6, 0]
    assert alignment.rows == 3


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 2**20))
def test_windows_are_found_wherever_they_lie(first: int, other: int, seed: int) -> None:
    tokens = torch.randint(0, 10_000, (60,), generator=torch.Generator().manual_seed(seed)).tolist()
    index = GramIndex()
    index.add(0, [7] * 30)
    index.add(1, tokens[other : other + 40])
    ours = tokens[first : first + 40]
    found = index.find(ours)
    assert found is not None
    number, alignment = found
    assert number == 1
    shared = len(range(max(first, other), min(first, other) + 40))
    assert alignment.rows == shared
    assert (
        alignment.ours(torch.tensor(ours)).tolist()
        == alignment.theirs(torch.tensor(tokens[other : other + 40])).tolist()
    )
    assert index.find([1, 2, 3]) is None
