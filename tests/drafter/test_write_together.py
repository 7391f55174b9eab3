"""Several writers at once, and processes that die at any instruction: old bytes or new bytes, never torn ones."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from hsforensics.drafter import write
from hsforensics.drafter.write import BACKUP, last_backup, numbered, replace_file
from hsforensics.errors import HsfError

OLD, NEW = b'{"a": 1}\n', b'{"a": 2}\n'


def _die_at(line: int) -> Any:
    """A tracer that ends the process at the n-th line executed in the module that writes."""
    left = [line]

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename != write.__file__:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
        return trace

    return trace


def _run_and_die(path: Path, line: int) -> bool:
    """Run the writer in a child that dies at a line; whether it got to its end before."""
    child = os.fork()
    if child == 0:
        sys.settrace(_die_at(line))
        try:
            replace_file(path, OLD, NEW)
        finally:
            sys.settrace(None)
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_process_that_dies_at_any_line_leaves_old_bytes_or_new_ones_and_a_working_directory(tmp_path: Path) -> None:
    seen = set()
    for line in range(1, 400):
        directory = tmp_path / str(line)
        directory.mkdir()
        path = directory / "config.json"
        path.write_bytes(OLD)
        ended = _run_and_die(path, line)
        seen.add(path.read_bytes())
        assert path.read_bytes() in (OLD, NEW)
        again = replace_file(path, path.read_bytes(), NEW)  # no lock is left behind, no backup is overwritten
        assert again.exists()
        if path.read_bytes() == NEW and (backup := numbered(path, BACKUP, 0)).exists() and ended:
            assert backup.read_bytes() == OLD
        if ended:
            break
    else:
        pytest.fail("the writer never came to its end")
    assert seen == {OLD, NEW}
    assert line > 40  # the walk really went through the writer


def test_of_many_writers_at_once_exactly_one_wins_and_nothing_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(OLD)
    start, outcomes, refusals = threading.Barrier(8), [], []

    def run(number: int) -> None:
        start.wait()
        try:
            replace_file(path, OLD, b"%d" % number * 2000)
        except HsfError as error:
            refusals.append(error.code)
        else:
            outcomes.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = outcomes
    assert refusals == ["write-refused"] * 7
    assert path.read_bytes() == b"%d" % winner * 2000
    assert sorted(os.listdir(tmp_path)) == ["config.json", "config.json.bak"]  # noqa: PTH208


def test_while_another_writes_here_the_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(OLD)
    number = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(number, fcntl.LOCK_EX)
    try:
        with pytest.raises(HsfError, match="another hsforensics"):
            replace_file(path, OLD, NEW)
    finally:
        os.close(number)
    assert path.read_bytes() == OLD
    replace_file(path, OLD, NEW)


def test_the_last_backup_is_the_one_with_the_highest_number(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    assert last_backup(path) is None
    for number in (0, 2, 10):
        numbered(path, BACKUP, number).write_text("x")
    (tmp_path / "config.json.bak.99").symlink_to(path)
    (tmp_path / "config.json.bak.x").write_text("x")
    assert last_backup(path) == tmp_path / "config.json.bak.10"
