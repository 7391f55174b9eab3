"""``hsforensics fix-config``: options, streams and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from hsforensics.cli.fix_config import exit_code, fix_config_command
from hsforensics.errors import HsfError
from hsforensics.flows.fix_config import fix_config
from hsforensics.report.fix_config import check_line, outcome
from hsforensics.report.schema import to_json
from tests.incident import KIMI, TRAINED, report, write_config, write_weights

app = typer.Typer()
app.command()(fix_config_command)

BY_HAND = ["--wiring", "3,31,59", "--engine", "sglang==0.5.16", "--architecture", KIMI, "--layers", "61"]


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


def test_a_pending_change_exits_1_and_writes_nothing(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    before = config.read_bytes()
    result = _run(tmp_path, *BY_HAND)
    assert result.exit_code == 1
    assert "+      31,\n" in result.stdout
    assert result.stderr == ""
    assert config.read_bytes() == before


def test_write_exits_0_and_then_everything_has_nothing_to_do(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    assert _run(tmp_path, *BY_HAND, "--write").exit_code == 0
    after = config.read_bytes()
    for more in ([], ["--check"], ["--write"], ["--json"]):
        assert _run(config, *BY_HAND, *more).exit_code == 0
    assert config.read_bytes() == after


@pytest.mark.parametrize("deed", ["--write", "--output"])
def test_what_the_edit_mends_is_no_fault_once_it_is_done(tmp_path: Path, deed: str) -> None:
    drafter = tmp_path / "drafter"
    drafter.mkdir()
    write_config(drafter, eagle_config=None)
    plan = _run(drafter, *BY_HAND)
    assert (plan.exit_code, "error ids-absent" in plan.stdout) == (1, True)
    done = _run(drafter, *BY_HAND, deed, *([str(tmp_path / "new")] if deed == "--output" else []))
    assert (done.exit_code, "error" in done.stdout) == (0, False)
    assert "info ids-absent: with the old config, " in done.stdout
    assert "Nothing more to do: the ids are written." in done.stdout


def test_check_prints_one_line_and_exits_1(tmp_path: Path) -> None:
    write_config(tmp_path)
    result = _run(tmp_path, *BY_HAND, "--check")
    assert result.exit_code == 1
    assert result.stdout.count("\n") == 1
    assert "change pending" in result.stdout


def test_check_warns_on_stderr_only(tmp_path: Path) -> None:
    write_config(tmp_path)
    arguments = [text.replace("0.5.16", "0.5.10") for text in BY_HAND]
    result = _run(tmp_path, *arguments, "--check")
    assert result.stdout.count("\n") == 1
    assert "CUDA graphs" in result.stderr


def test_json_is_one_object_with_the_plan(tmp_path: Path) -> None:
    write_config(tmp_path)
    result = _run(tmp_path, *BY_HAND, "--json")
    data = json.loads(result.stdout)
    assert (result.exit_code, data["kind"], data["pending"], data["after"]["states"]) == (
        1,
        "fix-config",
        True,
        list(TRAINED),
    )


def test_a_report_file_settles_everything_but_the_engine(tmp_path: Path) -> None:
    drafter = tmp_path / "drafter"
    drafter.mkdir()
    write_config(drafter)
    file = tmp_path / "report.json"
    file.write_text(to_json(report(drafter_structure_sha256=write_weights(drafter))))
    assert _run(drafter, "--report", file, "--engine", "sglang==0.5.16", "--write").exit_code == 0
    assert _run(drafter, "--report", file, "--engine", "sglang==0.5.16").exit_code == 0
    data = json.loads((drafter / "config.json").read_text())
    assert data["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [3, 31, 59]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--engine", "sglang==0.5.16"],
        [*BY_HAND, "--report", "report.json"],
        [*BY_HAND, "--write", "--check"],
        [*BY_HAND, "--check", "--json"],
        ["--wiring", "3,x", "--engine", "sglang==0.5.16"],
        [*BY_HAND, "--layers", "0"],
    ],
)
def test_a_wrong_command_line_exits_2_with_an_empty_stdout(tmp_path: Path, arguments: list[str]) -> None:
    write_config(tmp_path)
    result = _run(tmp_path, *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--wiring", "3,31,59", "--engine", "sglang", "--architecture", KIMI], 2),
        (["--wiring", "3,31,59", "--engine", "sglang==0.5.16"], 2),
        (["--wiring", "0,3,31", "--engine", "sglang==0.5.12.post1", "--architecture", KIMI], 3),
        (["--wiring", "3,31,59", "--engine", "sglang==0.5.16", "--architecture", "NoSuch"], 3),
        (["--report", "{tmp}/config.json", "--engine", "sglang==0.5.16"], 3),
        (["--report", "{tmp}/ambiguous.json", "--engine", "sglang==0.5.16"], 3),
        (["--report", "{tmp}/nowhere.json", "--engine", "sglang==0.5.16"], 2),
    ],
)
def test_errors_carry_their_exit_code(tmp_path: Path, arguments: list[str], code: int) -> None:
    write_config(tmp_path)
    (tmp_path / "ambiguous.json").write_text(to_json(report((3, None, 59))))
    result = _run(tmp_path, *(text.replace("{tmp}", str(tmp_path)) for text in arguments))
    assert isinstance(result.exception, HsfError)
    assert result.exception.exit_code == code
    assert result.stdout == ""


def test_an_error_finding_without_a_change_exits_1(tmp_path: Path) -> None:
    from hsforensics.drafter.config import read_drafter_config

    config = write_config(tmp_path, eagle_config={"eagle_aux_hidden_state_layer_ids": [3, 31, 59]})
    digest = read_drafter_config(config).sha256
    found = report(served=(2, 30, 58), engine="sglang", engine_version="0.5.16", served_config_sha256=digest)
    result = fix_config(tmp_path, report=found)
    assert exit_code(result) == 1
    assert outcome(result) == "Nothing to write, but see the findings of severity error."
    assert check_line(result).endswith("nothing to write, but see the findings of severity error")


def test_the_command_is_imported_without_torch() -> None:
    code = "import sys, hsforensics.cli.fix_config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
