"""A drafter's edited config in a new directory beside links to its weights: for drafters that must not be touched."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from hsforensics.drafter.config import DrafterConfig
from hsforensics.drafter.write import BACKUP, UNDONE
from hsforensics.errors import HsfError

_CODE = "write-refused"


def write_copy(config: DrafterConfig, raw: bytes, output: Path, *, skip: tuple[str, ...] = ()) -> Path:
    """Make a directory that an engine can load: the edited config, and links to all other files of the drafter.

    The directory appears whole, by one rename, or not at all. The drafter itself is only read.

    Args:
        config: The drafter's config as read.
        raw: The edited bytes.
        output: The directory to make; it must not exist, or be empty.
        skip: Names of files to leave out.

    Returns:
        The new config's path.

    Raises:
        HsfError: ``write-refused``.
    """
    refuse_occupied(output)
    try:
        with tempfile.TemporaryDirectory(dir=_parent(output), prefix=f".{output.name}.", suffix=".tmp") as name:
            made = Path(name) / "drafter"
            made.mkdir(mode=0o755)
            link_siblings(config.path, made, skip)
            _write(made / config.path.name, raw)
            keep_mode(config.path, made / config.path.name)
            place_directory(made, output)
    except OSError as error:
        raise write_failed(output, error) from None
    return output / config.path.name


def refuse_occupied(output: Path) -> None:
    """Refuse a destination that holds something.

    Raises:
        HsfError: ``write-refused``.
    """
    if output.is_symlink() or (output.exists() and (not output.is_dir() or any(output.iterdir()))):
        raise HsfError(_CODE, output, "exists already and is not an empty directory", "name a new directory")


def place_directory(made: Path, output: Path) -> None:
    """Give a finished directory its name; an empty directory of that name is replaced by the rename itself."""
    os.replace(made, output)  # noqa: PTH105 (the atomic call itself, by its own name)


def link_siblings(file: Path, directory: Path, skip: tuple[str, ...]) -> None:
    """Link every other plain file beside ``file``, links into a cache resolved, so that weights need no copy."""
    for other in sorted(file.parent.iterdir()):
        if _belongs(other, file, skip):
            (directory / other.name).symlink_to(other.resolve())


def copy_siblings(file: Path, directory: Path, skip: tuple[str, ...]) -> None:
    """Likewise with copies."""
    for other in sorted(file.parent.iterdir()):
        if _belongs(other, file, skip):
            shutil.copy(other, directory / other.name)  # with its mode


def keep_mode(like: Path, path: Path) -> None:
    """Give a new file the mode of the one that it stands for, links resolved; its owner may always write it."""
    path.chmod(stat.S_IMODE(like.stat().st_mode) | stat.S_IWUSR)


def _belongs(other: Path, file: Path, skip: tuple[str, ...]) -> bool:
    """Whether a file is part of the drafter, and no copy of old bytes that an edit or an undo left."""
    kept = other.is_file() and other.name != file.name and other.name not in skip
    return kept and not {f".{BACKUP}", f".{UNDONE}"} & set(other.suffixes)


def _parent(output: Path) -> Path:
    parent = output.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    return parent


def _write(path: Path, raw: bytes) -> None:
    with path.open("xb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())


def write_failed(output: Path, error: OSError) -> HsfError:
    """The error for a directory that could not be written."""
    message = f"writing failed ({error.strerror or error}); nothing was left behind"
    return HsfError(_CODE, output, message, "check space and permissions, then try again")
