"""Rows are aligned by their tokens alone."""

from collections.abc import Iterable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsforensics.matching.align import ALIGNMENT_WORDS, Alignment, align
from hsforensics.matching.align_windows import PlaceIndex, Places
from hsforensics.matching.fingerprint import context_keys

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


def places(tokens: list[int], rows: Iterable[int] | None = None) -> Places:
    """A fingerprint's tokens: all, or those of some rows."""
    keys = torch.tensor(tokens)
    chosen = list(range(len(tokens)) if rows is None else rows)
    return Places([tokens[row] for row in chosen], chosen, context_keys(keys)[chosen].tolist(), len(tokens))


def proves(ours: Places, theirs: Places, alignment: Alignment, shift: int) -> bool:
    """Whether every pair of rows lies at the right shift."""
    mine = [ours.rows[a + step] for a, _, count in alignment.spans for step in range(count)]
    other = [theirs.rows[b + step] for _, b, count in alignment.spans for step in range(count)]
    return [row - shift for row in mine] == other


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 70), st.integers(20, 70), st.integers(0, 2**20), st.booleans())
def test_windows_are_found_wherever_they_lie(first: int, end: int, seed: int, inside: bool) -> None:
    tokens = torch.randint(0, 10_000, (160,), generator=torch.Generator().manual_seed(seed)).tolist()
    theirs = places(tokens[first : first + 90] if inside else tokens[first:])
    ours = places(tokens, [*range(30, 41), *range(60, 71), *range(100, 100 + end - 10)])
    index = PlaceIndex()
    index.add(0, places([7] * 30))
    index.add(1, theirs)
    found = index.find(ours)
    assert found is not None
    assert found[0] == 1
    assert proves(ours, theirs, found[1], first)
    assert index.find(places([1, 2, 3])) is None


@settings(deadline=None, max_examples=40)
@given(st.integers(6, 30), st.integers(40, 200), st.integers(0, 60), st.integers(0, 2**20))
def test_a_repeated_phrase_never_pairs_wrong_rows(phrase: int, end: int, first: int, seed: int) -> None:
    """Both sides hold occurrences of the phrase, of a start or of a tail, but perhaps not the same ones."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(0, 10_000, (240,), generator=generator)
    for place in range(0, 240 - phrase, 60):
        words[place : place + phrase] = torch.arange(phrase)
    tokens = words.tolist()
    ours = places(tokens, [*range(60, 66), *range(120, 126), *range(190, 200)])
    for theirs, shift in ((places(tokens[:end]), 0), (places(tokens[first:]), first)):
        index = PlaceIndex()
        index.add(0, theirs)
        found = index.find(ours)
        assert found is None or proves(ours, theirs, found[1], shift)
        assert found is not None or end <= 60


def test_other_text_before_the_same_words_is_no_pair() -> None:
    tokens = torch.randint(0, 10_000, (90,), generator=torch.Generator().manual_seed(1)).tolist()
    other = [*tokens[:35], 3, *tokens[36:]]
    index = PlaceIndex()
    index.add(0, places(other, range(40, 51)))
    assert index.find(places(tokens, range(40, 51))) is None
    index.add(1, places(tokens, range(40, 51)))
    assert index.find(places(tokens, range(40, 51))) == (1, Alignment("same", ((0, 0, 11),)))
