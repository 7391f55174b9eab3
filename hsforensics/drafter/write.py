"""Replace one file safely: whole or not at all, with a backup, and never through a link into a cache."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

from hsforensics.errors import HsfError
from hsforensics.shell import path_word

BACKUP, UNDONE = "bak", "undone"
"""Endings of the copies of old bytes: before an edit, and before an undo."""

_CODE = "write-refused"
_NO_DIRECTORY_SYNC = (errno.EINVAL, errno.ENOTSUP)  # some network file systems cannot; the swap is atomic even so


def replace_file(path: Path, before: bytes, after: bytes, suffix: str = BACKUP) -> Path:
    """Replace a file's bytes atomically, keep its mode and owner, and keep a copy of the old bytes beside it.

    Whatever fails, the file holds its old bytes and nothing new lies around. Writers of this package take turns by a
    lock on the directory; whoever else writes is noticed by the bytes. A process that dies at any instruction leaves
    the file with its old bytes or its new ones, and at most a hidden temporary file or a backup beside it.

    Args:
        path: A plain file.
        before: Its bytes as they were read; it must still hold them.
        after: The new bytes.
        suffix: Ending of the copy's name.

    Returns:
        The copy: ``NAME.bak``, or ``NAME.bak.1`` and so on when that exists.

    Raises:
        HsfError: ``write-refused``: a symbolic link, a hub cache, a read-only file, a file that changed meanwhile,
            another writer at work, or any failure of the operating system.
    """
    refuse_unsafe(path)
    try:
        with _turn(path):
            return _replace(path, before, after, suffix)
    except OSError as error:
        message = f"writing failed ({error.strerror or error}); {_aftermath(path, before)}"
        raise HsfError(_CODE, path, message, "check space and permissions of its directory, then try again") from None


def numbered(path: Path, suffix: str, number: int) -> Path:
    """The name of a copy: ``config.json.bak``, ``config.json.bak.1`` and so on."""
    return path.with_name(f"{path.name}.{suffix}{f'.{number}' if number else ''}")


def last_backup(path: Path) -> Path | None:
    """The newest backup that ``replace_file`` left beside a file, the one with the highest number, or ``None``."""
    pattern = re.compile(re.escape(f"{path.name}.{BACKUP}") + r"(?:\.(\d+))?")
    found = {match: other for other in path.parent.iterdir() if (match := pattern.fullmatch(other.name))}
    plain = {int(match[1] or 0): other for match, other in found.items() if other.is_file() and not other.is_symlink()}
    return plain[max(plain)] if plain else None


def refuse_unsafe(path: Path) -> None:
    """Refuse a file that must not be written in place.

    Raises:
        HsfError: ``write-refused``, naming the reason and how to go on.
    """
    folder = path_word(path.parent, "DRAFTER")
    copy = f"write elsewhere (--output DIRECTORY), or copy it out: cp -rL {folder} DRAFTER-COPY"
    if path.is_symlink():
        message = f"is a symbolic link to {path.readlink()}, which others may share"
        raise HsfError(_CODE, path, message, copy)
    if in_hub_cache(path):
        message = f"lies in a hub cache ({path.resolve().parent}), whose files must stay as downloaded"
        raise HsfError(_CODE, path, message, copy)
    if not path.is_file():
        raise HsfError(_CODE, path, "is no plain file", "give the drafter's directory or its config.json")
    if not stat.S_IMODE(path.stat().st_mode) & 0o222:
        raise HsfError(_CODE, path, "is marked read-only", f"chmod u+w {path_word(path, 'CONFIG')}, then try again")


def in_hub_cache(path: Path) -> bool:
    """Whether a path runs through ``models--*/snapshots`` or ``models--*/blobs``, links resolved."""
    parts = path.resolve().parts
    return any(outer.startswith("models--") and inner in ("snapshots", "blobs") for outer, inner in pairwise(parts))


@contextlib.contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Hold the directory's lock, which the system gives back when the process dies; waiting would hide a bug."""
    number = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = "another hsforensics is writing in its directory"
            raise HsfError(_CODE, path, message, "wait for it, then run the command again") from None
        yield
    finally:
        os.close(number)


def _replace(path: Path, before: bytes, after: bytes, suffix: str) -> Path:
    with _temporary(path, after) as fresh:
        backup = _keep(path, before, suffix)
        try:
            _refuse_changed(path, before)
            os.replace(fresh, path)  # noqa: PTH105 (the atomic call itself, by its own name)
        except BaseException:
            backup.unlink(missing_ok=True)
            raise
        try:
            _sync_directory(path.parent)
            _read_back(path, after)
        except BaseException:
            os.replace(backup, path)  # noqa: PTH105
            raise
    return backup


@contextlib.contextmanager
def _temporary(path: Path, data: bytes) -> Iterator[Path]:
    """The new bytes in a file of the same directory, gone at the end unless it took the file's place."""
    like = path.stat()
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        _fill(number, data, like)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _keep(path: Path, before: bytes, suffix: str) -> Path:
    """Write the old bytes under the first free name; an existing copy is never touched."""
    like = path.stat()
    for backup in (numbered(path, suffix, number) for number in count()):
        try:
            number = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        try:
            _fill(number, before, like)
        except BaseException:
            backup.unlink(missing_ok=True)
            raise
        return backup
    raise AssertionError("an endless count ended")


def _fill(number: int, data: bytes, like: os.stat_result) -> None:
    """Write and sync an open file descriptor, with the mode, and where allowed the owner, of another file."""
    with os.fdopen(number, "wb") as file:
        file.write(data)
        file.flush()
        with contextlib.suppress(PermissionError):
            os.fchown(number, like.st_uid, like.st_gid)
        os.fchmod(number, stat.S_IMODE(like.st_mode))
        os.fsync(number)


def _refuse_changed(path: Path, before: bytes) -> None:
    refuse_unsafe(path)
    if path.read_bytes() != before:
        raise HsfError(_CODE, path, "changed while this command ran", "run the command again on the new content")


def _sync_directory(directory: Path) -> None:
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
    finally:
        os.close(number)


def _read_back(path: Path, after: bytes) -> None:
    if path.read_bytes() != after:
        raise OSError("the file does not hold what was written")


def _aftermath(path: Path, before: bytes) -> str:
    with contextlib.suppress(OSError):
        if path.read_bytes() == before:
            return "the file holds its old bytes"
    return f"the old bytes are in {path.name}.bak, or the highest-numbered one"
