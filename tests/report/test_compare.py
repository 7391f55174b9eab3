"""``compare`` on a terminal: everything a tired reader needs, and nothing computed."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hsforensics.flows.compare import compare
from hsforensics.report.compare import compare_csv, print_compare
from hsforensics.results import CompareResult
from hsforensics.states import POSTNORM, Wiring
from tests.incident import report
from tests.world import make_world, write_bank, write_dump

VERDICT = "Verdict: undecided (served states not measured; 124 tokens of 3 sequences); 4 errors; trained [3, 6, 9]"


def printed(result: CompareResult) -> str:
    out = Console(file=io.StringIO(), width=120)
    print_compare(result, out)
    file = out.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_claim_and_evidence_stand_side_by_side(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, POSTNORM), (-1, 2, 5, 8))
    text = printed(compare(dump, write_bank(world, tmp_path / "bank")))
    assert "embedding (state 0)  state 3" in text
    assert "holds: state 3" in text
    assert "claimed: embedding (state 0)" in text
    assert "trained wiring    [3, 6, 9]" in text
    assert "served wiring     not measured" in text
    assert text.rstrip().endswith(VERDICT)


@pytest.mark.parametrize(
    ("trained", "served", "verdict", "line"),
    [
        ((3, 6, 9), (3, 6, 9), "aligned", "aligned (100 tokens of 2 sequences); trained [3, 6, 9], served [3, 6, 9]"),
        ((3, 6, 9), None, "undecided", "undecided (served states not measured; 100 tokens of 2 sequences); trained"),
        ((3, None, 9), (3, 6, 9), "undecided", "undecided (not every state is known; 100 tokens of 2 sequences);"),
        (None, (3, 6, 9), "undecided", "undecided (not every state is known; 100 tokens of 2 sequences); served"),
        ((3, 6, 9), (3, 6, 9), "undecided", "undecided (too little, or contradictory, evidence; 100 tokens"),
    ],
)
def test_the_verdict_says_why_it_is_none_and_on_what_wirings(
    trained: Wiring | None, served: Wiring | None, verdict: Any, line: str
) -> None:
    assert f"Verdict: {line}" in printed(replace(report(trained, served), verdict=verdict))


def test_offsets_and_unknown_slots_are_shown(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, POSTNORM))
    text = printed(compare(dump, write_bank(world, tmp_path / "live", served=(4, 7, 10))))
    assert "offset            [+1, +1, +1]" in text
    assert "every served state lies 1 layer deeper than the trained one" in text
    assert "[3, ?, 59]" in printed(report((3, None, 59)))


def test_labels_from_strangers_are_no_markup() -> None:
    base = report()
    hostile = replace(base.channels[0], label="[red]x[/red]\x1b[2J", values=(1.0,) * 5, row=0)
    text = printed(replace(base, channels=(hostile,)))
    assert "[red]x[/red]" in text
    assert "\x1b" not in text


def test_csv_has_one_row_for_each_channel_and_reads_back() -> None:
    base = report()
    rows = list(
        csv.DictReader(io.StringIO(compare_csv(replace(base, channels=(replace(base.channels[0], label='a,"b'),)))))
    )
    assert [(row["label"], row["state"], row["status"]) for row in rows] == [('a,"b', "3", "matched")]


def test_the_verdict_stands_first_and_last_and_places_are_named(tmp_path: Path) -> None:
    world = make_world(lengths=(40,))
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, POSTNORM))
    (dump / "data_1.pt").write_bytes(b"torn")
    text = printed(compare(dump, write_bank(world, tmp_path / "bank")))
    verdict = "Verdict: undecided (served states not measured; 40 tokens of 1 sequence); 1 error; trained [3, 6, 9]"
    assert text.count(verdict) == 2
    assert text.index(verdict) < text.index("hidden_states[0]")
    assert "data_1.pt" in text


def test_findings_of_many_samples_are_one_entry() -> None:
    from hsforensics.findings import finding
    from hsforensics.report.findings import print_findings

    many = [
        finding("rows-constant", f"data_{i}.pt, hidden_states[0]", f"{i + 3} rows ({i}%) are zero", f"{i} rows")
        for i in range(24)
    ]
    file = io.StringIO()
    print_findings(many, Console(file=file, width=200))
    text = file.getvalue()
    assert text.count("error rows-constant") == 1
    assert "24 places: data_0.pt, hidden_states[0]; data_1.pt" in text


def test_eighty_columns_keep_channel_claim_state_and_status(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, POSTNORM), (-1, 2, 5, 8))
    out = Console(file=io.StringIO(), width=80)
    print_compare(compare(dump, write_bank(world, tmp_path / "bank")), out)
    assert isinstance(out.file, io.StringIO)
    lines = [line.split() for line in out.file.getvalue().splitlines()]
    assert ["hidden_states[0]", "embedding", "state", "3", "mismatched", "0"] in [line[:6] for line in lines]
    plain = [line for line in out.file.getvalue().splitlines() if not line.startswith("    $ ")]
    assert max(map(len, plain)) <= 80  # and commands are never broken, so that they can be copied


def test_a_state_that_is_only_nearest_is_not_said_to_be_held() -> None:
    base = report()
    alien = replace(base.channels[0], identity="none", values=(1.0,) * 5, reference=(2.0,) * 5, row=0)
    text = printed(replace(base, channels=(alien,)))
    assert "nearest: state 3" in text
    assert "holds: state 3" not in text


def test_the_share_that_a_finding_explains_stands_with_its_evidence(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, POSTNORM))
    result = compare(dump, write_bank(world, tmp_path / "bank", served=(3, 6, 10)))
    assert [item.share for item in result.findings if item.code == "offset-mixed"] == [1 / 3]
    assert "served [3, 6, 10] [explains 33%]" in printed(result)
    assert "explains" not in printed(compare(dump, write_bank(world, tmp_path / "right", served=(3, 6, 9))))


def test_words_of_commands_that_nobody_has_said_are_named_once() -> None:
    from hsforensics.report.findings import print_commands

    out = Console(file=io.StringIO(), width=120)
    print_commands(("hsforensics compare DUMPS 'my bank' --draft DRAFTER", "hsforensics compare DUMPS LIVE"), out)
    print_commands(("hsforensics compare dumps LIVE",), out)
    assert isinstance(out.file, io.StringIO)
    assert [line.strip() for line in out.file.getvalue().splitlines() if "$" not in line] == [
        "(put in your own DUMPS, DRAFTER)"
    ]
