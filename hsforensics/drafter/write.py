"""Replace one file safely: whole or not at all, with a backup, and never through a link into a cache."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
import tempfile
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

from hsforensics.errors import HsfError

_CODE = "write-refused"
_NO_DIRECTORY_SYNC = (errno.EINVAL, errno.ENOTSUP)  # some network file systems cannot; the swap is atomic even so


def replace_file(path: Path, before: bytes, after: bytes) -> Path:
    """Replace a file's bytes atomically, keep its mode and owner, and keep a copy of the old bytes beside it.

    Whatever fails, the file holds its old bytes and nothing new lies around.

    Args:
        path: A plain file.
        before: Its bytes as they were read; it must still hold them.
        after: The new bytes.

    Returns:
        The backup: ``NAME.bak``, or ``NAME.bak.1`` and so on when that exists.

    Raises:
        HsfError: ``write-refused``: a symbolic link, a hub cache, a read-only file, a file that changed meanwhile, or
            any failure of the operating system.
    """
    refuse_unsafe(path)
    try:
        return _replace(path, before, after)
    except OSError as error:
        message = f"writing failed ({error.strerror or error}); {_aftermath(path, before)}"
        raise HsfError(_CODE, path, message, "check space and permissions of its directory, then try again") from None


def refuse_unsafe(path: Path) -> None:
    """Refuse a file that must not be written in place.

    Raises:
        HsfError: ``write-refused``, naming the reason and how to go on.
    """
    copy = f"copy the drafter out and fix the copy: cp -rL {shlex.quote(str(path.parent))} DRAFTER-COPY"
    if path.is_symlink():
        message = f"is a symbolic link to {path.readlink()}, which others may share"
        raise HsfError(_CODE, path, message, copy)
    if _in_hub_cache(path):
        message = f"lies in a hub cache ({path.resolve().parent}), whose files must stay as downloaded"
        raise HsfError(_CODE, path, message, copy)
    if not path.is_file():
        raise HsfError(_CODE, path, "is no plain file", "give the drafter's directory or its config.json")
    if not stat.S_IMODE(path.stat().st_mode) & 0o222:
        raise HsfError(_CODE, path, "is marked read-only", f"chmod u+w {shlex.quote(str(path))}, then try again")


def _in_hub_cache(path: Path) -> bool:
    """Whether a path runs through ``models--*/snapshots`` or ``models--*/blobs``, links resolved."""
    parts = path.resolve().parts
    return any(outer.startswith("models--") and inner in ("snapshots", "blobs") for outer, inner in pairwise(parts))


def _replace(path: Path, before: bytes, after: bytes) -> Path:
    with _temporary(path, after) as fresh:
        backup = _keep(path, before)
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


def _keep(path: Path, before: bytes) -> Path:
    """Write the old bytes under the first free backup name; an existing backup is never touched."""
    like = path.stat()
    names = (path.with_name(f"{path.name}.bak{f'.{number}' if number else ''}") for number in count())
    for backup in names:
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
