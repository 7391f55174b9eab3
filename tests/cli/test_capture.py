"""``hsforensics capture``: options, streams and exit codes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from hsforensics.cli.capture import _progress, capture_command
from hsforensics.errors import HsfError
from tests.capture.families import save_model
from tests.dumps import makers

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(capture_command)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model("llama", tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    for index in range(2):
        makers.speculators_file(tmp_path / "dumps" / f"data_{index}.pt")
    return tmp_path / "dumps"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_capture_exits_0_and_prints_where_it_lies(dumps: Path, target: Path, tmp_path: Path) -> None:
    result = run(dumps, "--target", target, "-o", tmp_path / "cap", "--dtype", "fp32")
    assert result.exit_code == 0
    assert str(tmp_path / "cap") in result.stdout.replace("\n", "")
    assert "2 requests, 10 rows" in result.stdout
    assert result.stderr == ""


def test_json_is_the_only_thing_on_stdout(dumps: Path, target: Path, tmp_path: Path) -> None:
    result = run(dumps, "--target", target, "-o", tmp_path / "cap", "--json", "--max-samples", 1, "--max-tokens", 2)
    data = json.loads(result.stdout)
    assert (data["kind"], data["schema_version"], data["requests"], data["rows"]) == ("capture", 1, 1, 2)


def test_unreadable_files_exit_1(dumps: Path, target: Path, tmp_path: Path) -> None:
    (dumps / "data_0.pt").write_text("torn")
    result = run(dumps, "--target", target, "-o", tmp_path / "cap")
    assert result.exit_code == 1
    assert "file-unreadable" in result.stdout


def test_options_reach_the_flow(dumps: Path, target: Path, tmp_path: Path) -> None:
    arguments = (dumps, "--target", target, "-o", tmp_path / "cap", "--device", "cpu", "--middle", "--json")
    assert "mid:2" in json.loads(run(*arguments).stdout)["states"]
    assert isinstance(run(*arguments).exception, HsfError)
    assert run(*arguments, "--force").exit_code == 0


def test_sglang_without_a_drafter_is_a_usage_error_that_names_the_option(
    dumps: Path, target: Path, tmp_path: Path
) -> None:
    error = run(dumps, "--target", target, "-o", tmp_path / "cap", "--engine", "sglang").exception
    assert isinstance(error, HsfError)
    assert (error.code, error.exit_code, error.where) == ("usage", 2, "--draft")


def test_options_of_a_live_engine_are_refused_without_one(dumps: Path, target: Path, tmp_path: Path) -> None:
    error = run(dumps, "--target", target, "-o", tmp_path / "cap", "--tp", "2").exception
    assert isinstance(error, HsfError)
    assert (error.code, error.exit_code) == ("usage", 2)
    assert "--engine sglang" in error.remedy


def test_an_interpreter_without_sglang_is_named(dumps: Path, target: Path, tmp_path: Path) -> None:
    live = ("--engine", "sglang", "--algorithm", "none")
    error = run(dumps, "--target", target, "-o", tmp_path / "cap", *live).exception
    assert isinstance(error, HsfError)
    assert (error.code, error.where) == ("dependency-missing", sys.executable)
    assert not (tmp_path / "cap").exists()


@pytest.mark.parametrize(
    "bad", [("--dtype", "fp8"), ("--max-samples", "0"), ("--max-tokens", "-1"), ("--engine", "vllm"), ("--nonsense",)]
)
def test_a_wrong_command_line_exits_2(bad: tuple[str, ...], dumps: Path, target: Path, tmp_path: Path) -> None:
    assert run(dumps, "--target", target, "-o", tmp_path / "cap", *bad).exit_code == 2


def test_target_and_out_are_required(dumps: Path, target: Path, tmp_path: Path) -> None:
    assert run(dumps, "--target", target).exit_code == 2
    assert run(dumps, "-o", tmp_path / "cap").exit_code == 2


FRESH = """
import sys
import typer
from hsforensics.cli.capture import capture_command
heavy = {"torch", "transformers", "safetensors", "pydantic", "pandas"} & set(sys.modules)
assert not heavy, heavy
app = typer.Typer()
app.command()(capture_command)
app()
"""


def test_in_a_fresh_process_nothing_heavy_is_imported_early_and_stderr_stays_empty(
    dumps: Path, target: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", FRESH, str(dumps), "--target", str(target), "-o", str(tmp_path / "cap"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["requests"] == 2


@pytest.mark.parametrize("told", [False, True])
def test_a_bar_is_drawn_with_the_first_word_of_progress_and_not_before(
    told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", stream)
    with _progress() as progress:
        assert progress is not None
        if told:
            progress(0, 3)
    assert ("capturing" in stream.getvalue()) == told
