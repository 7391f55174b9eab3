"""The command line as a process: exit codes, streams, and no traceback for anything a user can cause."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hsforensics.states import POSTNORM
from tests.world import make_world, write_bank, write_dump, write_target

COMMANDS = ("capture", "compare", "fix-config", "draft-eval", "findings")


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``hsforensics`` in a process of its own, without colours."""
    kept = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "GITHUB_ACTIONS")}
    command = [sys.executable, "-c", "from hsforensics.cli.main import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**kept, "TERM": "dumb", **environment})


def test_help_imports_neither_torch_nor_other_heavy_packages() -> None:
    heavy = ("torch", "transformers", "scipy", "pandas", "numpy", "safetensors", "sglang")
    code = (
        "import sys; sys.argv = ['hsforensics', '--help']\n"
        "from hsforensics.cli.main import main\n"
        "try: main()\n"
        f"except SystemExit: print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"
    for command in COMMANDS:
        assert command in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_its_exit_codes(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0
    assert command == "findings" or "Exit codes" in done.stdout


def test_version() -> None:
    assert run("--version").stdout.startswith("hsforensics 0.")


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-command",),
        ("compare",),
        ("compare", "dump", "--no-such-option"),
        ("compare", "dump", "--claims", "zero,one"),
        ("compare", "dump", "--json", "--csv"),
        ("compare", "/nonexistent/dump", "--target", "/nonexistent/target"),
        ("findings", "no-such-code"),
        ("draft-eval", "drafter"),
    ],
)
def test_a_wrong_command_line_is_exit_2_without_a_traceback(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("hsforensics: error[")


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        (("compar",), "did you mean compare?"),
        (("contract", "verfy"), "did you mean verify?"),
        (("compare", "dump", "--drft", "x"), "did you mean --draft?"),
        (("findings", "offset-uniforn"), "did you mean offset-uniform?"),
        (("zzz",), "for example: hsforensics demo"),
        (("compare",), "for example: hsforensics compare DUMPS CAPTURE --draft DRAFTER"),
        (("capture", "d"), "for example: hsforensics capture DUMPS --target MODEL --out BANK"),
        (("capture", "d", "--engine", "vllm"), "for example: hsforensics capture DUMPS --target MODEL --out BANK"),
        (("contract", "write"), "for example: hsforensics contract write DRAFTER --report report.json --dumps DUMPS"),
        (
            ("contract", "verify", "--engine"),
            "for example: hsforensics contract verify DRAFTER --engine sglang==0.5.16",
        ),
    ],
)
def test_a_wrong_command_line_ends_with_what_was_meant_or_a_right_one(arguments: tuple[str, ...], end: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.endswith(f"; {end}")
    assert "Value error" not in line


def test_nothing_typed_is_help_and_exit_2() -> None:
    done = run()
    assert done.returncode == 2
    assert "compare" in done.stdout + done.stderr


def test_a_reader_that_goes_away_is_no_difference() -> None:
    code = "from hsforensics.cli.main import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-c", code, "findings", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    assert (child.wait(), child.stderr.read()) == (141, b"")


def test_a_full_disk_behind_stdout_is_one_line_and_exit_3() -> None:
    code = "from hsforensics.cli.main import main; main()"
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-c", code, "findings", "--json"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    assert "error[write-refused]: stdout" in done.stderr


def test_compare_exit_codes_and_streams(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, POSTNORM))
    lying = write_dump(world, tmp_path / "lying", (3, 6, 9, POSTNORM), (-1, 2, 5, 8))
    bank = write_bank(world, tmp_path / "bank")
    right, wrong = (write_bank(world, tmp_path / f"live{s[0]}", served=s) for s in ((3, 6, 9), (4, 7, 10)))
    codes = {name: run("compare", dump, capture).returncode for name, capture in (("bank", bank), ("right", right))}
    assert codes == {"bank": 3, "right": 0}
    assert run("compare", dump, wrong).returncode == 1
    refuted = run("compare", lying, "--target", write_target(world, tmp_path / "target"))
    assert refuted.returncode == 1
    assert "labelled embedding (state 0), but does not hold it" in refuted.stdout
    assert refuted.stderr == ""


def test_compare_prints_json_or_csv_and_nothing_else(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, POSTNORM))
    bank = write_bank(world, tmp_path / "bank")
    found = json.loads(run("compare", dump, bank, "--json").stdout)
    assert (found["kind"], found["schema_version"], found["trained_wiring"]) == ("compare", 1, [3, 6, 9])
    assert found["provenance"]["command"][1:] == ["compare", str(dump), str(bank), "--json"]
    header, *rows = run("compare", dump, bank, "--csv").stdout.splitlines()
    assert header.startswith("side,index,label,claim,role,identity,state,distance")
    assert len(rows) == 4


@pytest.mark.parametrize(
    ("spoil", "code", "words"),
    [
        (lambda dump, bank: (bank / "manifest.json").unlink(), 3, "capture-foreign"),
        (lambda dump, bank: (bank / "request-00000.safetensors").unlink(), 3, "capture-unfinished"),
        (lambda dump, bank: [f.write_bytes(b"junk") for f in dump.iterdir()], 3, "dump-unreadable"),
        (lambda dump, bank: [f.unlink() for f in dump.iterdir()], 3, "dump-unknown"),
    ],
)
def test_bad_input_is_one_line_naming_file_and_remedy(tmp_path: Path, spoil: object, code: int, words: str) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, POSTNORM))
    bank = write_bank(world, tmp_path / "bank")
    spoil(dump, bank)  # type: ignore[operator]
    done = run("compare", dump, bank)
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"hsforensics: error[{words}]: {tmp_path}")
    assert "; " in line


def test_a_name_with_escape_sequences_is_shown_not_obeyed(tmp_path: Path) -> None:
    done = run("compare", tmp_path / "du\x1b[2Jmp", "--target", tmp_path)
    assert done.returncode == 2
    assert "\x1b" not in done.stderr


def test_a_bug_is_exit_70_and_one_line() -> None:
    code = (
        "import sys; sys.argv = ['hsforensics', 'compare', 'x', '--target', 'y']\n"
        "import hsforensics.flows.compare as flow\n"
        "flow.compare = lambda *a, **k: 1 / 0\n"
        "from hsforensics.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 70
    assert done.stderr.startswith("hsforensics: bug: ZeroDivisionError")
    assert "Traceback" not in done.stderr


def test_ctrl_c_is_exit_130() -> None:
    code = (
        "import sys, time; sys.argv = ['hsforensics', 'compare', 'x', '--target', 'y']\n"
        "import hsforensics.flows.compare as flow\n"
        "flow.compare = lambda *a, **k: (print('ready', flush=True), time.sleep(60))\n"
        "from hsforensics.cli.main import main; main()"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "ready"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=30)
    assert (child.returncode, errors) == (130, "")
