"""Health of many files: one finding for each channel and kind, that says how much, where, and which rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsforensics.flows.compare import compare
from hsforensics.flows.health_findings import health_findings, show_spans
from hsforensics.matching.health import HealthIssue, check_channel, runs_of
from hsforensics.states import POSTNORM
from tests.world import make_world, write_bank, write_dump

TRUTH = (3, 6, 9, POSTNORM)
SAMPLES = 9


def nan(values: Tensor) -> Tensor:
    return values.index_fill(0, torch.tensor([4, 20, 21]), float("nan"))


def zero(values: Tensor) -> Tensor:
    return values.index_fill(0, torch.tensor([4, 20, 21]), 0.0)


def huge(values: Tensor) -> Tensor:
    values = values.clone()
    values[[4, 20, 21], 7] = 70_000.0
    return values


def short(values: Tensor) -> Tensor:
    """A row too few, in an order that no cut explains."""
    return values.flip(0)[:-1]


def narrow(values: Tensor) -> Tensor:
    return values[:, :-1]


def repeated(values: Tensor) -> Tensor:
    values = values.clone()
    values[[14, 20, 21]] = values[[4, 8, 9]]
    return values


@pytest.mark.parametrize(
    ("change", "code", "rows"),
    [
        (nan, "channel-unreadable", "27 rows: data_0.pt 4, 20-21; data_1.pt 4, 20-21; data_2.pt 4, 20-21 and 6 more"),
        (zero, "rows-constant", "27 rows: data_0.pt 4, 20-21; data_1.pt 4, 20-21; data_2.pt 4, 20-21 and 6 more"),
        (huge, "values-overflow", "27 rows: data_0.pt 4, 20-21; data_1.pt 4, 20-21; data_2.pt 4, 20-21 and 6 more"),
        (
            repeated,
            "rows-duplicate",
            "27 rows: data_0.pt 14, 20-21; data_1.pt 14, 20-21; data_2.pt 14, 20-21 and 6 more",
        ),
        (short, "channel-unreadable", "351 rows"),
        (narrow, "channel-unreadable", "360 rows"),
    ],
)
def test_one_finding_for_each_channel_and_kind(
    tmp_path: Path, change: Callable[[Tensor], Tensor], code: str, rows: str
) -> None:
    world = make_world(lengths=(40,) * SAMPLES)
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    for file in dump.glob("data_*.pt"):
        sample = torch.load(file, weights_only=True)
        sample["hidden_states"] = [
            change(values) if i in (1, 2) else values for i, values in enumerate(sample["hidden_states"])
        ]
        torch.save(sample, file)
    result = compare(dump, write_bank(world, tmp_path / "bank"))
    files = "data_0.pt, data_1.pt, data_2.pt and 6 more"
    found = [item for item in result.findings if item.code == code and "data_0.pt" in item.where]
    assert [item.where for item in found] == [f"{files}, hidden_states[{i}]" for i in (1, 2)]
    for item in found:
        assert item.evidence == rows
        assert "in data_0.pt; 9 samples are so" in item.message
    assert max(Counter(item.code for item in result.findings).values()) <= 4  # no kind more than once for a channel


def test_one_file_keeps_its_plain_words() -> None:
    values = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    values[10:14, 2] = float("inf")
    (issue,) = check_channel(values, torch.arange(50), 8)
    (found,) = health_findings([("data_3.pt", issue)], "hidden_states[1]")
    assert (found.where, found.message, found.evidence) == (
        "data_3.pt, hidden_states[1]",
        "NaN or Inf in 4 of 50 rows, first in row 10",
        "4 rows: 10-13",
    )


def test_served_rows_are_said_to_be_the_captures_fault_once() -> None:
    issue = HealthIssue("nonfinite", 1, 3, "NaN or Inf in 1 of 9 rows, first in row 3", ((3, 3),))
    (found,) = health_findings([(f"request of data_{i}.pt", issue) for i in range(2)], "served.0")
    assert found.where == "request of data_0.pt, data_1.pt, served.0"
    assert "capture again" in found.remedy
    assert found.evidence == "2 rows: data_0.pt 3; data_1.pt 3"


@pytest.mark.parametrize(
    ("rows", "runs"),
    [
        ([], ()),
        ([0], ((0, 0),)),
        ([0, 1, 2, 9], ((0, 2), (9, 9))),
        (range(10), ((0, 9),)),
        ([3, 5, 7], ((3, 3), (5, 5), (7, 7))),
    ],
)
def test_runs_are_those_of_the_rows(rows: list[int], runs: tuple[tuple[int, int], ...]) -> None:
    bad = torch.zeros(10, dtype=torch.bool)
    bad[list(rows)] = True
    assert runs_of(bad) == runs


def test_many_runs_are_capped() -> None:
    spans = [(i, i) for i in range(0, 40, 2)]
    assert show_spans(spans) == "0, 2, 4, 6, 8, 10 and 14 more runs"
    assert show_spans(spans[:7]) == "0, 2, 4, 6, 8, 10 and 1 more run"
    assert show_spans([(2, 2), (4, 7)]) == "2, 4-7"
