"""A capture is whole or absent, and never replaces anything but a capture."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from hsforensics.capture import write as write_module
from hsforensics.capture.store import (
    Capture,
    ManifestHeader,
    RequestTensors,
    open_capture,
    write_capture,
)
from hsforensics.errors import HsfError
from tests.capture import makers
from tests.capture.makers import code_of, names_beside


def failing(head: ManifestHeader, error: BaseException) -> Iterator[RequestTensors]:
    yield makers.request(3, head)
    raise error


@pytest.mark.parametrize("error", [RuntimeError("engine died"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_producer_that_fails_leaves_nothing(error: BaseException, tmp_path: Path) -> None:
    head = makers.header()
    with pytest.raises(type(error)):
        write_capture(tmp_path / "cap", head, failing(head, error))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["_write_request", "_write_manifest", "_publish", "_sync", "file_sha256"])
def test_a_full_disk_at_any_step_is_an_error_and_leaves_nothing(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write_module, step, full)
    head = makers.header()
    with pytest.raises(HsfError, match="No space left") as caught:
        write_capture(tmp_path / "cap", head, [makers.request(3, head)])
    assert caught.value.code == "write-refused"
    assert list(tmp_path.iterdir()) == []


def test_a_failing_replacement_keeps_the_old_capture(capture: Capture) -> None:
    head = makers.header()
    with pytest.raises(RuntimeError):
        write_capture(capture.path, head, failing(head, RuntimeError("engine died")), force=True)
    open_capture(capture.path).verify()
    assert names_beside(capture.path) == []


def test_a_rename_that_fails_during_a_replacement_puts_the_old_capture_back(
    capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def fails_for_the_new_one(self: Path, target: Path) -> Path:
        if Path(target) == capture.path and self.name != "old":
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails_for_the_new_one)
    head = makers.header()
    assert code_of(lambda: write_capture(capture.path, head, [makers.request(9, head)], force=True)) == "write-refused"
    monkeypatch.undo()
    assert [entry.rows for entry in open_capture(capture.path).requests] == [3, 5]
    assert names_beside(capture.path) == []


KILLED = """
import sys, time
from pathlib import Path
from hsforensics.capture.store import write_capture
from tests.capture import makers

head = makers.header()
def requests():
    yield makers.request(3, head)
    print("written", flush=True)
    time.sleep(60)
write_capture(Path(sys.argv[1]), head, requests())
"""


def test_a_kill_in_the_middle_leaves_nothing_at_the_destination_and_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "cap"
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, cwd=root) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"written\n"
        child.send_signal(signal.SIGKILL)
    assert not path.exists()
    assert code_of(lambda: open_capture(path)) == "capture-unfinished"
    (leftover,) = tmp_path.iterdir()
    assert stat.S_IMODE(leftover.stat().st_mode) == 0o700
    assert code_of(lambda: open_capture(leftover)) == "capture-unfinished"
    head = makers.header()
    write_capture(path, head, [makers.request(3, head)])
    open_capture(path).verify()


def test_each_request_is_on_the_disk_before_the_next_is_asked_for(tmp_path: Path) -> None:
    head = makers.header()
    on_disk = []

    def requests() -> Iterator[RequestTensors]:
        for seed in range(3):
            on_disk.append(sum(1 for _ in tmp_path.glob(".cap*/request-*")))
            yield makers.request(3, head, seed=seed)

    write_capture(tmp_path / "cap", head, requests())
    assert on_disk == [0, 1, 2]


# -- what is there already -------------------------------------------------------------------------------------------


def test_an_existing_destination_is_refused_before_any_request_is_made(capture: Capture) -> None:
    def never() -> Iterator[RequestTensors]:
        raise AssertionError("asked for a request")
        yield

    assert code_of(lambda: write_capture(capture.path, makers.header(), never())) == "write-refused"


def test_force_replaces_a_capture(capture: Capture) -> None:
    head = makers.header()
    write_capture(capture.path, head, [makers.request(9, head)], force=True)
    assert [entry.rows for entry in open_capture(capture.path).requests] == [9]
    assert len(list(capture.path.iterdir())) == 2
    assert names_beside(capture.path) == []


def foreign_directory(path: Path) -> None:
    path.mkdir()
    (path / "thesis.tex").write_text("precious")


def foreign_manifest(path: Path) -> None:
    path.mkdir()
    (path / "manifest.json").write_text('{"format": "docker"}')


def capture_with_a_note(path: Path) -> None:
    head = makers.header()
    write_capture(path, head, [makers.request(3, head)])
    (path / "notes.txt").write_text("precious")


def link_to_a_capture(path: Path) -> None:
    head = makers.header()
    write_capture(path.with_name("real"), head, [makers.request(3, head)])
    path.symlink_to("real")


def a_file(path: Path) -> None:
    path.write_text("precious")


def dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    "place",
    [foreign_directory, foreign_manifest, capture_with_a_note, link_to_a_capture, a_file, dangling_link, Path.mkdir],
    ids=lambda place: place.__name__,
)
def test_force_never_replaces_anything_that_is_not_purely_a_capture(
    place: Callable[[Path], object], tmp_path: Path
) -> None:
    place(tmp_path / "cap")
    before = sorted((file, file.lstat().st_mtime_ns) for file in tmp_path.rglob("*"))
    head = makers.header()
    requests = [makers.request(3, head)]
    assert code_of(lambda: write_capture(tmp_path / "cap", head, requests)) == "write-refused"
    assert code_of(lambda: write_capture(tmp_path / "cap", head, requests, force=True)) == "write-refused"
    assert sorted((file, file.lstat().st_mtime_ns) for file in tmp_path.rglob("*")) == before


def test_a_capture_of_nothing_is_refused(tmp_path: Path) -> None:
    assert code_of(lambda: write_capture(tmp_path / "cap", makers.header(), [])) == "nothing-compared"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"states": {0: torch.zeros(3, 4)}},
        {"states": dict.fromkeys(makers.STATES, torch.zeros(3, 5))},
        {"states": dict.fromkeys(makers.STATES, torch.zeros(2, 4))},
        {"states": dict.fromkeys(makers.STATES, torch.zeros(3, 4, dtype=torch.int64))},
        {"states": dict.fromkeys(reversed(makers.STATES), torch.zeros(3, 4))},
        {"positions": torch.arange(2)},
        {"served": (torch.zeros(3, 4),)},
    ],
)
def test_tensors_that_do_not_fit_the_header_are_a_fault_of_the_program(
    change: dict[str, object], tmp_path: Path
) -> None:
    head = makers.header()
    fields = vars(makers.request(3, head)) | change
    with pytest.raises(ValueError, match=r"header|must be"):
        write_capture(tmp_path / "cap", head, [RequestTensors(**fields)])
    assert list(tmp_path.iterdir()) == []
