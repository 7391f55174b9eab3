"""Health: what makes a channel useless or doubtful before any match."""

import pytest
import torch

from hsforensics.matching.health import check_channel

TOKENS = torch.arange(50)


def healthy() -> torch.Tensor:
    return torch.randn(50, 8, generator=torch.Generator().manual_seed(0))


def test_a_healthy_channel_has_no_issue() -> None:
    assert check_channel(healthy(), TOKENS, 8) == ()


def test_row_count_and_width_are_named_with_allowed_and_got() -> None:
    (short,) = check_channel(healthy()[:49], TOKENS, 8)
    assert (short.kind, short.message) == ("shape", "49 rows for 50 token ids")
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
