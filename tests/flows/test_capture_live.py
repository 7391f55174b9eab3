"""``capture --engine sglang`` against a fake engine package: whole captures, and every way in which an engine fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hsforensics.capture import sglang as live
from hsforensics.capture.store import open_capture
from hsforensics.errors import HsfError
from hsforensics.flows.capture_live import capture_live
from tests.capture.families import HIDDEN, LAYERS, VOCAB, save_model
from tests.dumps import makers

FAKE = Path(__file__).parents[1] / "capture" / "fake"
SIZES = (5, 7, 3, 6, 4)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model("llama", tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture
def dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    monkeypatch.setattr(live, "SPOOL_S", 5.0)
    for index, rows in enumerate(SIZES):
        ids = (torch.arange(rows) * 7 + index) % VOCAB
        makers.speculators_file(tmp_path / "dumps" / f"data_{index}.pt", rows, input_ids=ids)
    return tmp_path / "dumps"


def capture(dumps: Path, target: Path, *, mood: str = "well", **options: Any) -> Any:
    drafter = None if options.get("algorithm") == "none" else target
    return capture_live(dumps, target, drafter, dumps.parent / "cap", engine_args=("--mood", mood), **options)


def refusal(dumps: Path, target: Path, mood: str) -> HsfError:
    with pytest.raises(HsfError) as caught:
        capture(dumps, target, mood=mood)
    assert not (dumps.parent / "cap").exists()
    return caught.value


def test_bank_served_states_and_fc_input_of_every_sample_are_stored_in_order(dumps: Path, target: Path) -> None:
    result = capture(dumps, target)
    found = open_capture(dumps.parent / "cap")
    assert (found.manifest.kind, found.manifest.engine, found.manifest.engine_version) == ("live", "sglang", "0.5.99")
    assert found.manifest.states == (*range(LAYERS + 1), "postnorm")
    assert [entry.rows for entry in found.requests] == list(SIZES)
    for index, entry in enumerate(found.requests):
        request = found.read(entry)
        assert request.token_ids.tolist() == [(row * 7 + index) % VOCAB for row in range(SIZES[index])]
        assert torch.equal(request.served[1].values, request.state(2))
        assert request.fc_input is not None
        assert torch.equal(request.fc_input[:, :HIDDEN], request.state(1))
    assert result.findings == ()
    assert result.provenance.engine_version == "0.5.99"


def test_without_a_drafter_only_the_bank_is_stored(dumps: Path, target: Path) -> None:
    capture(dumps, target, algorithm="none", max_samples=1)
    found = open_capture(dumps.parent / "cap")
    assert found.read(found.requests[0]).fc_input is None


def test_every_rank_is_recorded_when_asked_for(dumps: Path, target: Path) -> None:
    result = capture(dumps, target, tp=2, every_rank=True)
    found = open_capture(dumps.parent / "cap")
    assert (found.manifest.ranks, result.findings) == (2, ())
    for entry in found.requests:
        request = found.read(entry)
        assert [[value.shape for value in rank] for rank in request.ranks] == [[(entry.rows, HIDDEN)] * 2]
        for slot, channel in enumerate(request.served):
            assert torch.equal(request.ranks[0][slot], channel.values)


def test_of_several_ranks_the_first_alone_is_recorded_otherwise(dumps: Path, target: Path) -> None:
    capture(dumps, target, mood="shares", tp=2, max_samples=1)
    found = open_capture(dumps.parent / "cap")
    assert (found.manifest.ranks, found.read(found.requests[0]).ranks) == (1, ())


def test_ranks_that_serve_different_values_are_a_finding_of_their_slot(dumps: Path, target: Path) -> None:
    result = capture(dumps, target, mood="shares", tp=2, every_rank=True)
    told = {(found.code, found.where) for found in result.findings}
    assert told >= {("ranks-disagree", "served.1"), ("served-off-bank", "served.1")}
    assert ("ranks-disagree", "served.0") not in told


def test_every_rank_of_one_is_refused_before_the_engine_starts(dumps: Path, target: Path) -> None:
    with pytest.raises(HsfError, match="--every-rank") as caught:
        capture(dumps, target, every_rank=True)
    assert (caught.value.code, caught.value.exit_code) == ("usage", 2)


@pytest.mark.parametrize("argument", [("--tp-size=4",), ("--tp", "4"), ("--tensor-parallel-size=3",)])
def test_another_number_of_ranks_in_an_engine_argument_is_refused(
    dumps: Path, target: Path, argument: tuple[str, ...]
) -> None:
    with pytest.raises(HsfError, match="gives the engine other ranks than the 2") as caught:
        capture_live(dumps, target, target, dumps.parent / "cap", tp=2, every_rank=True, engine_args=argument)
    assert (caught.value.code, caught.value.where) == ("usage", "--engine-arg")


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        ("short", r"recorded rank1\.served\.1 as float32 \[\d+, 32\], where floats \[\d+, 32\] were due"),
        ("narrow", r"recorded rank1\.served\.1 as float32 \[5, 31\], where floats \[5, 32\] were due"),
        ("more-ranks", "runs rank 3, and 2 ranks were asked for"),
    ],
)
def test_ranks_that_cannot_be_added_up_are_an_engine_failure(dumps: Path, target: Path, mood: str, words: str) -> None:
    with pytest.raises(HsfError, match=words) as caught:
        capture(dumps, target, mood=mood, tp=2, every_rank=True)
    assert caught.value.code == "engine-failed"
    assert not (dumps.parent / "cap").exists()


@pytest.mark.parametrize(
    ("mood", "code"), [("off-bank", "served-off-bank"), ("shuffled", "fc-input-differs")], ids=["bank", "fc"]
)
def test_an_engine_that_disagrees_with_itself_is_a_finding(dumps: Path, target: Path, mood: str, code: str) -> None:
    result = capture(dumps, target, mood=mood)
    assert {found.code for found in result.findings} == {code}


def test_the_engines_own_accept_length_is_reported_when_tokens_are_generated(dumps: Path, target: Path) -> None:
    (found,) = capture(dumps, target, new_tokens=8).findings
    assert (found.code, found.severity) == ("accept-measured", "info")
    assert "2.500" in found.message


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        ("broken", ("exit code 1", "cannot load this model")),
        ("killed", ("signal 9", "scheduler hit an exception")),
        ("refuses", ("context length",)),
        ("graphs", ("no hook saw a whole prefill",)),
    ],
)
def test_a_failing_engine_is_one_error_with_its_last_lines_and_no_capture(
    dumps: Path, target: Path, mood: str, words: tuple[str, ...]
) -> None:
    if mood == "graphs":
        live.SPOOL_S = 0.1
    error = refusal(dumps, target, mood)
    assert (error.code, error.exit_code) == ("engine-failed", 3)
    for word in words:
        assert word in str(error)


def test_a_silent_engine_is_given_up(dumps: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "ANSWER_S", 0.5)
    assert "did not answer within" in refusal(dumps, target, "hangs").message


def test_no_process_of_the_engine_is_left_behind(dumps: Path, target: Path) -> None:
    capture(dumps, target, mood="orphans", max_samples=1)
    pid = int((target / "orphan.pid").read_text())
    _wait_for(lambda: not _runs(pid))
    assert not _runs(pid)


@pytest.mark.parametrize(("death", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)], ids=["ctrl-c", "kill -9"])
def test_the_engine_ends_with_the_command_however_that_ends(
    dumps: Path, target: Path, death: signal.Signals, code: int
) -> None:
    (target / "orphan.pid").unlink(missing_ok=True)
    arguments = ["capture", dumps, "--target", target, "--draft", target, "--out", dumps.parent / "cap"]
    arguments += ["--engine", "sglang", "--engine-arg=--mood=hangs"]
    command = [sys.executable, "-c", "from hsforensics.cli.main import main; main()", *map(str, arguments)]
    scratch = dumps.parent / "scratch"
    scratch.mkdir()
    here = {"PYTHONPATH": os.pathsep.join((str(FAKE), str(Path(__file__).parents[2]))), "TMPDIR": str(scratch)}
    run = subprocess.Popen(command, env=os.environ | here)
    _wait_for((target / "orphan.pid").exists)
    time.sleep(0.3)  # the file is written before the engine is up
    run.send_signal(death)
    assert run.wait(30) == code
    pid = int((target / "orphan.pid").read_text())
    _wait_for(lambda: not _runs(pid))
    assert not _runs(pid)
    assert list(scratch.iterdir()) == []


def _wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(400):
        if condition():
            return
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]


def test_nothing_of_the_scratch_directory_is_left_behind(
    dumps: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    capture(dumps, target, max_samples=1)
    assert list(scratch.iterdir()) == []


def test_the_hook_imports_none_of_this_packages_dependencies_but_torch() -> None:
    names = "('typer', 'pydantic', 'scipy', 'pandas', 'rich', 'safetensors')"
    code = f"import hsforensics.capture.hook, sys; print([name for name in {names} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
