"""The page of measured accuracy is that of the present faults, not of an earlier list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tools.accuracy import BY_NAME, EVERY, FAULTS, HARMLESS, NOISES, PAGE, Part, load, options, page, wrong

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
    alarm = ("a scene, bf16: healthy: misaligned",)
    part = Part("a scene", "a CPU", "some GPU", "| t |", ("| line |",), 3, alarm, tuple(BY_NAME))
    kept.write_text(json.dumps(part.__dict__), encoding="utf-8")
    assert load(kept) == part
    text = page([part])
    assert "Of 3 judgements, 1 were false" in text
    assert "| a scene | a CPU | some GPU |" in text


def test_what_is_not_there_or_was_kept_by_another_version_is_none(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text(json.dumps({"name": "a scene", "device": "a CPU"}), encoding="utf-8")
    assert load(old) is None
    assert load(tmp_path / "none.json") is None


@pytest.mark.parametrize("wrong_words", [("--jobs", "0"), ("--jobs", "-2"), ("--device", "tpu")])
def test_a_wrong_command_line_is_refused(
    wrong_words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["accuracy.py", *wrong_words])
    with pytest.raises(SystemExit) as stopped:
        options()
    assert stopped.value.code == 2
    assert wrong_words[0] in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["accuracy.py", "--device", "cuda"])
    with pytest.raises(SystemExit):
        options()
    assert "use --device cpu" in capsys.readouterr().err
