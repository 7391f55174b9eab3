"""Health: what makes a channel useless or doubtful before any match."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsforensics.matching.health import check_channel, check_mask, check_tokens
from hsforensics.matching.row_hash import RowLedger, row_hashes

TOKENS = torch.arange(50)


def healthy() -> torch.Tensor:
    return torch.randn(50, 8, generator=torch.Generator().manual_seed(0))


def test_a_healthy_channel_has_no_issue() -> None:
    assert check_channel(healthy(), TOKENS, 8) == ()


def test_row_count_and_width_are_named_with_allowed_and_got() -> None:
    (short,) = check_channel(healthy()[:49], TOKENS, 8)
    assert (short.kind, short.message) == ("short", "49 rows for 50 token ids")
    (narrow,) = check_channel(healthy(), TOKENS, 16)
    assert narrow.kind == "shape"
    assert "width 8" in narrow.message
    assert "16" in narrow.message


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_one_poisoned_value_is_found_with_its_row(poison: float) -> None:
    values = healthy()
    values[17, 3] = poison
    (issue,) = check_channel(values, TOKENS, 8)
    assert (issue.kind, issue.rows, issue.first) == ("nonfinite", 1, 17)


def test_zero_rows_and_repeated_rows_are_constant() -> None:
    zeros = healthy()
    zeros[10:45] = 0
    (issue,) = check_channel(zeros, TOKENS, 8)
    assert (issue.kind, issue.rows, issue.first) == ("constant", 35, 10)
    stuck = healthy()
    stuck[20:] = stuck[20]
    (issue,) = check_channel(stuck, TOKENS, 8)
    assert (issue.kind, issue.rows, issue.first) == ("constant", 29, 21)


def test_equal_rows_of_equal_tokens_are_no_fault() -> None:
    """The embedding of a repeated token is a repeated row."""
    values = healthy()
    values[20:] = values[20]
    tokens = TOKENS.clone()
    tokens[20:] = 20
    assert check_channel(values, tokens, 8) == ()


def test_rows_of_one_value_and_integer_states_are_found() -> None:
    flat = healthy()
    flat[30:] = torch.arange(20, dtype=torch.float32)[:, None] + 1  # each row one value, all rows different
    (issue,) = check_channel(flat, TOKENS, 8)
    assert (issue.kind, issue.rows, issue.first) == ("constant", 20, 30)
    (issue,) = check_channel(torch.ones(50, 8, dtype=torch.int64), TOKENS, 8)
    assert issue.kind == "shape"
    assert "floating point" in issue.message


def test_rows_that_repeat_other_tokens_rows_are_duplicates() -> None:
    values = healthy()
    values[40:46] = values[3:9]
    (issue,) = check_channel(values, TOKENS, 8)
    assert (issue.kind, issue.rows, issue.first) == ("duplicate", 6, 40)
    same = TOKENS.clone()
    same[40:46] = TOKENS[3:9]
    assert check_channel(values, same, 8) == ()


def test_values_beyond_fp16_are_named_but_compared() -> None:
    values = healthy().bfloat16()
    values[7, 0] = 70000.0
    (issue,) = check_channel(values, TOKENS, 8)
    assert (issue.kind, issue.rows, issue.first) == ("overflow", 1, 7)


def test_token_ids_outside_the_vocabulary() -> None:
    assert check_tokens(TOKENS, 50) is None
    found = check_tokens(TOKENS, 48)
    assert found is not None
    assert (found.kind, found.rows, found.first) == ("tokens", 2, 48)
    assert "0..47" in found.message
    negative = check_tokens(torch.tensor([3, -1]), None)
    assert negative is not None
    assert negative.first == 1


@pytest.mark.parametrize(
    ("mask", "kind"),
    [
        (None, None),
        (torch.ones(50), None),
        (torch.zeros(50), "mask-empty"),
        (torch.ones(49), "mask-length"),
        (torch.eye(50)[3], None),
    ],
)
def test_loss_masks(mask: torch.Tensor | None, kind: str | None) -> None:
    found = check_mask(mask, 50)
    assert (found.kind if found else None) == kind


def test_a_ledger_finds_rows_of_an_earlier_sample_with_other_tokens() -> None:
    ledger = RowLedger()
    first, second = healthy(), torch.randn(50, 8, generator=torch.Generator().manual_seed(1))
    assert not ledger.stale("a", first, TOKENS)[0].any()
    second[10:20] = first[10:20]
    bad, source = ledger.stale("b", second, TOKENS + 100)
    assert (bad.nonzero().flatten().tolist(), source) == (list(range(10, 20)), "a")
    third = second.clone()  # the same tokens may well have the same rows: a shared prefix
    assert not ledger.stale("c", third, TOKENS + 100)[0][:10].any()


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 30), st.integers(1, 9), st.sampled_from([torch.bfloat16, torch.float16, torch.float32]))
def test_equal_rows_have_equal_hashes_in_every_dtype_and_unequal_ones_do_not(
    rows: int, width: int, dtype: torch.dtype
) -> None:
    values = torch.randn(rows, width, generator=torch.Generator().manual_seed(rows)).to(dtype)
    hashes = row_hashes(values)
    assert torch.equal(hashes, row_hashes(values.float()))
    for i in range(rows):
        for j in range(rows):
            assert (hashes[i] == hashes[j]) == torch.equal(values[i], values[j])
