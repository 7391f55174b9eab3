"""``hsforensics draft-eval``: options reach the flow, exit codes follow the findings, stdout carries data only."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from hsforensics.cli.draft_eval import draft_eval_command
from hsforensics.drafter.ranking import MIN_LEAD, MIN_SEQUENCES
from hsforensics.findings import finding
from hsforensics.results import DraftEvalResult
from tests.report.test_draft_eval import ORIGIN, RUN

app = typer.Typer()
app.command()(draft_eval_command)
BASE = ["drafter", "--target", "model", "--data", "bank"]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Replaces the flow; what it was called with."""
    import hsforensics.flows.draft_eval as flow

    made: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def fake(*args: Any, **options: Any) -> DraftEvalResult:
        made.append((args, options))
        broken = finding("channel-unreadable", "[3]", "NaN", "1 of 2 rows")
        return DraftEvalResult((RUN,), (broken,) if options["seed"] == 13 else (), ORIGIN)

    monkeypatch.setattr(flow, "draft_eval", fake)
    return made


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, [*BASE, *arguments])


def test_every_option_reaches_the_flow(calls: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> None:
    words = "--wiring 3,31,postnorm --wiring embedding,3,31 --channels 0,1,2 --steps 5 --target-channel 3 --feed own"
    words += " --dtype bf16 --device cpu --max-sequences 7 --seed 2"
    found = run(*words.split())
    assert found.exit_code == 0
    (args, options), *_ = calls
    assert args == (Path("drafter"), Path("model"), Path("bank"))
    assert options == {
        "wirings": [(3, 31, "postnorm"), (0, 3, 31)],
        "channels": [(0, 1, 2)],
        "steps": 5,
        "target_channel": 3,
        "feed": "own",
        "dtype": "bf16",
        "device": "cpu",
        "max_sequences": 7,
        "seed": 2,
    }
    assert type(options["feed"]) is str


def test_a_finding_of_severity_error_ends_with_1(calls: list[Any]) -> None:
    assert run("--wiring", "3,31,59", "--seed", "13").exit_code == 1
    assert run("--wiring", "3,31,59").exit_code == 0


def test_json_is_the_whole_of_stdout(calls: list[Any]) -> None:
    found = run("--wiring", "3,31,59", "--json")
    assert json.loads(found.stdout)["runs"][0]["wiring"] == [3, 31, 59]
    assert replace(RUN).accept_length.value == json.loads(found.stdout)["runs"][0]["accept_length"]["value"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--wiring", "3,x"),
        ("--wiring", ""),
        ("--channels", "0,a"),
        ("--channels", "-1"),
        ("--steps", "0"),
        ("--feed", "air"),
    ],
)
def test_a_bad_value_is_a_usage_error_that_names_the_option(option: str, value: str, calls: list[Any]) -> None:
    found = run(option, value)
    assert found.exit_code == 2
    assert option in found.output
    assert not calls


def test_help_says_what_channels_of_a_dump_prove() -> None:
    text = " ".join(CliRunner().invoke(app, ["--help"], terminal_width=400).output.split())
    assert "proves the drafter, not the wiring" in text


def test_help_says_what_accuracy_cannot_tell_apart_and_when_a_best_wiring_is_named() -> None:
    text = " ".join(CliRunner().invoke(app, ["--help"], terminal_width=400).output.split())
    assert "only values (hsforensics compare) tell them apart" in text
    assert f"at least {MIN_SEQUENCES} distinct sequences" in text
    assert f"certainly more than {MIN_LEAD}" in text


def test_the_command_is_importable_without_torch() -> None:
    code = "import sys, hsforensics.cli.draft_eval; print([m for m in ('torch', 'scipy', 'rich') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
