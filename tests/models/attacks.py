"""Files that a stranger could send: each maker writes one and returns it."""

from __future__ import annotations

import os
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

HONEST = {"a": torch.arange(300, dtype=torch.float32), "b": torch.full((1000,), 7.0)}


def honest(path: Path) -> Path:
    torch.save(HONEST, path)
    return path


class _Payload:
    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch '{self.trace}'",)


def trace_of(path: Path) -> Path:
    """The file that appears if a payload ran."""
    return path.with_suffix(".ran")


def payload(path: Path) -> Path:
    torch.save({"input_ids": torch.arange(3), "hidden_states": _Payload(trace_of(path))}, path)
    return path


def bare_pickle_payload(path: Path) -> Path:
    path.write_bytes(pickle.dumps(_Payload(trace_of(path)), protocol=2))
    return path


def numpy_inside(path: Path) -> Path:
    torch.save({"input_ids": np.arange(3)}, path)
    return path


def rezipped(path: Path, compression: int, edit: Callable[[str, bytes], bytes] = lambda _, data: data) -> Path:
    """The honest archive packed again by Python's zipfile, entry by entry."""
    original = honest(path.with_suffix(".original"))
    with zipfile.ZipFile(original) as old, zipfile.ZipFile(path, "w", compression) as new:
        for name in old.namelist():
            new.writestr(name, edit(name, old.read(name)))
    return path


def deflated(path: Path) -> Path:
    return rezipped(path, zipfile.ZIP_DEFLATED)


def _count(number: int) -> bytes:
    return b"M" + struct.pack("<H", number)


def storage_too_long(path: Path) -> Path:
    """The pickle says that the first storage has 3000 items; its entry has 300."""

    def edit(name: str, data: bytes) -> bytes:
        return data.replace(_count(300), _count(3000), 1) if name.endswith("data.pkl") else data

    return rezipped(path, zipfile.ZIP_STORED, edit)


def storage_too_short(path: Path) -> Path:
    def edit(name: str, data: bytes) -> bytes:
        return data.replace(_count(300), _count(100)) if name.endswith("data.pkl") else data

    return rezipped(path, zipfile.ZIP_STORED, edit)


def shape_too_long(path: Path) -> Path:
    """The storage is honest; the tensor's shape reaches beyond it."""

    def edit(name: str, data: bytes) -> bytes:
        if not name.endswith("data.pkl"):
            return data
        place = data.rindex(_count(300))
        return data[:place] + _count(3000) + data[place + 3 :]

    return rezipped(path, zipfile.ZIP_STORED, edit)


def entry_cut_short(path: Path) -> Path:
    def edit(name: str, data: bytes) -> bytes:
        return data[:100] if name.endswith("data/0") else data

    return rezipped(path, zipfile.ZIP_STORED, edit)


def storage_missing(path: Path) -> Path:
    original = honest(path.with_suffix(".original"))
    with zipfile.ZipFile(original) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            if not name.endswith("data/1"):
                new.writestr(name, old.read(name))
    return path


def two_entries_of_one_name(path: Path) -> Path:
    rezipped(path, zipfile.ZIP_STORED)
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data/0"))
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"\0" * 1200)
    return path


def zip_bomb(path: Path) -> Path:
    """400 MB of zeros in about 400 kB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("bomb/data.pkl", pickle.dumps({}, protocol=2))
        archive.writestr("bomb/version", "3\n")
        with archive.open("bomb/data/0", "w") as entry:
            for _ in range(100):
                entry.write(bytes(4 << 20))
    return path


def truncated(path: Path) -> Path:
    data = honest(path).read_bytes()
    path.write_bytes(data[: len(data) // 2])
    return path


def without_directory(path: Path) -> Path:
    """Everything but the last bytes, where the zip directory ends."""
    data = honest(path).read_bytes()
    path.write_bytes(data[:-30])
    return path


def empty(path: Path) -> Path:
    path.touch()
    return path


def text(path: Path) -> Path:
    path.write_text("this is a log file\n" * 50)
    return path


def html(path: Path) -> Path:
    path.write_text("<html>404</html>")
    return path


def pickled_nonsense(path: Path) -> Path:
    path.write_bytes(b"\x80\x02" + bytes(range(256)) * 4)
    return path


def lfs_pointer(path: Path) -> Path:
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    return path


def directory(path: Path) -> Path:
    path.mkdir()
    return path


def link_to_itself(path: Path) -> Path:
    path.symlink_to(path.name)
    return path


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def missing(path: Path) -> Path:
    return path


REFUSED = (
    payload,
    bare_pickle_payload,
    numpy_inside,
    storage_too_long,
    storage_too_short,
    shape_too_long,
    entry_cut_short,
    storage_missing,
    two_entries_of_one_name,
    zip_bomb,
    truncated,
    without_directory,
    empty,
    text,
    html,
    pickled_nonsense,
    lfs_pointer,
    directory,
    link_to_itself,
    pipe,
    missing,
)
"""Makers of files that must be refused, each with an error that names the file."""
