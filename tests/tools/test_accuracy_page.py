"""The page of measured accuracy is that of the present faults, not of an earlier list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.accuracy import EVERY, FAULTS, HARMLESS, NOISES, PAGE, Part, fault_names, load, page, wrong

TEXT = PAGE.read_text(encoding="utf-8")


def tables() -> dict[str, list[str]]:
    """Scene -> rows of its table of single faults."""
    parts = TEXT.split("\n## ")[1:]
    found = {part.partition(": one fault")[0]: part for part in parts if ": one fault" in part.splitlines()[0]}
    return {name: [line for line in part.splitlines() if line.startswith("| ")] for name, part in found.items()}


def test_the_page_counts_the_faults_that_the_code_has() -> None:
    assert f"{len(FAULTS)} faults and {len(HARMLESS)} harmless differences" in TEXT


def test_the_page_judges_every_fault_of_the_code_in_every_scene() -> None:
    names = ["**healthy**", *(f"{fault.name} ({fault.side})" for fault in (*FAULTS, *HARMLESS))]
    assert list(tables()) == list(EVERY)
    for name, rows in tables().items():
        head, _, *body = rows
        assert head == f"| fault | {' | '.join(NOISES)} |"
        assert [row.split(" | ")[0].removeprefix("| ") for row in body] == names, name


def test_the_page_has_no_false_all_clear_and_no_false_alarm() -> None:
    assert ", 0 were false all-clears or false alarms." in TEXT
    assert wrong([]) == []


def test_a_scene_is_kept_as_it_was_and_shown(tmp_path: Path) -> None:
    kept = tmp_path / "one.json"
    part = Part("a scene", "a CPU", "| t |", ("| line |",), 3, ("a scene, bf16: healthy: misaligned",), fault_names())
    kept.write_text(json.dumps(part.__dict__), encoding="utf-8")
    assert load(kept) == part
    text = page([part])
    assert "Of 3 judgements, 1 were false" in text
    assert "| a scene | a CPU |" in text
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.json")
