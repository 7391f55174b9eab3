"""What ``capture`` prints."""

from __future__ import annotations

import io

import pytest

from hsforensics.findings import finding
from hsforensics.flows.provenance import provenance
from hsforensics.report.capture import print_capture, show_states
from hsforensics.report.console import console
from hsforensics.results import CaptureResult, DumpSource
from hsforensics.states import State


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        ((*range(31), "postnorm"), "0 to 30, postnorm"),
        ((0, "mid:0", 1, "mid:1", 2, "postnorm"), "0 to 2, mid:0 to mid:1, postnorm"),
        ((3, 15, 27), "3, 15, 27"),
        ((5,), "5"),
        (("mid:4", "postnorm"), "mid:4, postnorm"),
    ],
)
def test_states_are_shown_in_a_few_words(states: tuple[State, ...], shown: str) -> None:
    assert show_states(states) == shown


def test_what_was_captured_and_what_was_wrong_are_printed() -> None:
    origin = provenance(
        target_path="models/[bold]x",
        layers=30,
        hidden_size=576,
        dumps=(DumpSource("dumps", "speculators 0.3/0.4", 8, "bfloat16"),),
        engine="transformers",
        engine_version="5.0",
        dtype="bfloat16",
        device="cpu",
    )
    wrong = finding("file-unreadable", "data_3.pt", "data_3.pt is torn", "0 bytes")
    result = CaptureResult("out/cap", (*range(31), "postnorm"), 8, 2400, 88_500_000, (wrong,), origin)
    stream = io.StringIO()
    print_capture(result, console(stream))
    shown = stream.getvalue()
    for part in ("models/[bold]x", "L = 30", "transformers 5.0", "bfloat16, cpu", "out/cap", "8 requests", "2400 rows"):
        assert part in shown
    for part in ("88.5 MB", "0 to 30, postnorm", "error file-unreadable: data_3.pt is torn"):
        assert part in shown
