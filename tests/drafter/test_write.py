"""A config is replaced whole or not at all, and nothing is left lying around."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest

from hsforensics.drafter.write import refuse_unsafe, replace_file
from hsforensics.errors import HsfError

OLD, NEW = b'{"a": 1}\n', b'{"a": 2}\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.json"
    file.write_bytes(OLD)
    return file


def _whole_and_alone(config: Path) -> None:
    assert config.read_bytes() == OLD
    assert [file.name for file in config.parent.iterdir()] == ["config.json"]


def _refused(config: Path) -> HsfError:
    with pytest.raises(HsfError) as caught:
        replace_file(config, OLD, NEW)
    assert caught.value.code == "write-refused"
    assert caught.value.exit_code == 3
    return caught.value


def test_new_bytes_old_backup_and_nothing_else(config: Path) -> None:
    backup = replace_file(config, OLD, NEW)
    assert config.read_bytes() == NEW
    assert backup.read_bytes() == OLD
    assert sorted(file.name for file in config.parent.iterdir()) == ["config.json", "config.json.bak"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_mode_bits_survive_whatever_the_umask(config: Path, mode: int) -> None:
    config.chmod(mode)
    old_mask = os.umask(0o077)
    try:
        backup = replace_file(config, OLD, NEW)
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE(config.stat().st_mode) == mode
    assert stat.S_IMODE(backup.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_survives(config: Path) -> None:
    os.chown(config, 1234, 1235)
    replace_file(config, OLD, NEW)
    assert (config.stat().st_uid, config.stat().st_gid) == (1234, 1235)


def test_a_foreign_owner_that_cannot_be_kept_is_no_failure(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fchown", _raising(PermissionError(errno.EPERM, "not permitted")))
    replace_file(config, OLD, NEW)
    assert config.read_bytes() == NEW


def test_existing_backups_are_never_overwritten(config: Path) -> None:
    for name in ("config.json.bak", "config.json.bak.1"):
        config.with_name(name).write_text("older")
    assert replace_file(config, OLD, NEW).name == "config.json.bak.2"
    assert config.with_name("config.json.bak").read_text() == "older"


def test_a_symbolic_link_is_refused_by_name_with_a_way_out(tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / "abc"
    blob.parent.mkdir()
    blob.write_bytes(OLD)
    config = tmp_path / "model" / "config.json"
    config.parent.mkdir()
    config.symlink_to("../blobs/abc")
    error = _refused(config)
    assert "../blobs/abc" in error.message
    assert f"cp -rL {config.parent}" in error.remedy
    assert blob.read_bytes() == OLD


def test_a_plain_file_inside_of_a_hub_cache_is_refused_even_through_a_linked_directory(tmp_path: Path) -> None:
    snapshot = tmp_path / "hub" / "models--org--name" / "snapshots" / "0a1b"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_bytes(OLD)
    (tmp_path / "drafter").symlink_to(snapshot)
    error = _refused(tmp_path / "drafter" / "config.json")
    assert "hub cache" in error.message
    _whole_and_alone(snapshot / "config.json")


def test_a_linked_directory_elsewhere_is_fine(config: Path, tmp_path: Path) -> None:
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    replace_file(link / "config.json", OLD, NEW)
    assert config.read_bytes() == NEW


def test_a_file_marked_read_only_is_refused_also_for_root(config: Path) -> None:
    config.chmod(0o444)
    assert "read-only" in _refused(config).message
    _whole_and_alone(config)


@pytest.mark.parametrize("kind", ["missing", "directory"])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "config.json"
    if kind == "directory":
        path.mkdir()
    with pytest.raises(HsfError, match="plain file"):
        refuse_unsafe(path)


def test_a_change_made_meanwhile_is_refused_and_kept(config: Path) -> None:
    config.write_bytes(b"edited by hand")
    assert "changed while" in _refused(config).message
    assert config.read_bytes() == b"edited by hand"
    assert [file.name for file in config.parent.iterdir()] == ["config.json"]


def test_a_change_made_in_the_last_moment_is_refused_too(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def edit_then_sync(number: int) -> None:
        config.write_bytes(b"edited by hand")
        real(number)

    monkeypatch.setattr(os, "fsync", edit_then_sync)
    assert "changed while" in _refused(config).message
    assert config.read_bytes() == b"edited by hand"


def test_an_unwritable_directory_is_refused(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "mkstemp", _raising(PermissionError(errno.EACCES, "Permission denied")))
    assert "Permission denied" in _refused(config).message
    _whole_and_alone(config)


class _Torn:
    """A file object whose write stores half and then fails, as on a full disk."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __enter__(self) -> _Torn:
        return self

    def __exit__(self, *details: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        self._file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", [1, 2])
def test_a_full_disk_leaves_the_old_file_and_no_litter(
    config: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    real, calls = os.fdopen, iter(range(1, 10))
    monkeypatch.setattr(os, "fdopen", lambda *a: _Torn(real(*a)) if next(calls) == call else real(*a))
    assert "No space left" in _refused(config).message
    _whole_and_alone(config)


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("name", ["fsync", "replace", "fchmod"])
@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_crash_at_any_call_leaves_the_old_file_and_no_litter(
    config: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: int, error: BaseException
) -> None:
    fired = _fail_at(monkeypatch, name, call, error)
    if (name, call) in {("replace", 2), ("replace", 3), ("fchmod", 3)}:  # a good run makes fewer calls
        replace_file(config, OLD, NEW)
        assert not fired
        return
    with pytest.raises((HsfError, KeyboardInterrupt)):
        replace_file(config, OLD, NEW)
    assert fired
    _whole_and_alone(config)


def test_other_bytes_on_reading_back_restore_the_old_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, reads = Path.read_bytes, iter(range(1, 10))
    monkeypatch.setattr(Path, "read_bytes", lambda self: b"junk" if next(reads) == 2 else real(self))
    error = _refused(config)
    assert "does not hold what was written" in error.message
    assert "holds its old bytes" in error.message
    monkeypatch.undo()
    _whole_and_alone(config)


def test_when_even_the_restoring_fails_the_backup_stays_and_is_named(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail_at(monkeypatch, "fsync", 3, OSError(errno.EIO, "Input/output error"))
    _fail_at(monkeypatch, "replace", 2, OSError(errno.EROFS, "Read-only file system"))
    assert "config.json.bak" in _refused(config).message
    assert config.with_name("config.json.bak").read_bytes() == OLD


def test_a_file_system_without_directory_sync_is_no_failure(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _fail_at(monkeypatch, "fsync", 3, OSError(errno.EINVAL, "Invalid argument")) == []
    replace_file(config, OLD, NEW)
    assert config.read_bytes() == NEW


def _raising(error: BaseException) -> Any:
    def fail(*args: object, **options: object) -> None:
        raise error

    return fail


def _fail_at(monkeypatch: pytest.MonkeyPatch, name: str, call: int, error: BaseException) -> list[int]:
    """Make the n-th call of ``os.NAME`` raise; the returned list fills when it does."""
    real, fired, calls = getattr(os, name), [], iter(range(1, 100))

    def maybe(*args: Any) -> Any:
        if next(calls) == call:
            fired.append(call)
            raise error
        return real(*args)

    monkeypatch.setattr(os, name, maybe)
    return fired
