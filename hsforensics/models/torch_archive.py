"""What a ``torch.save`` archive declares, checked with the standard library before torch reads a byte of it.

A zip directory and a pickle both state sizes, and torch believes the pickle when it maps a file into memory. The
pickle is only tokenised here, never run.
"""

from __future__ import annotations

import pickletools
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_LOCAL_HEADER = 30  # bytes of a local file header before name and extra field
_LOCAL_MAGIC = b"PK\x03\x04"
_MAX_PICKLE = 64 << 20  # bytes; the pickle of a checkpoint of 100 000 tensors is about 10 MB
_SLACK = 64 << 20  # bytes that any archive may declare, however small it is
_MAX_RATIO = 64  # declared bytes for each byte on disk: hidden states compress by less than 2
_ITEM_SIZES = {
    "torch DoubleStorage": 8,
    "torch LongStorage": 8,
    "torch ComplexFloatStorage": 8,
    "torch ComplexDoubleStorage": 16,
    "torch FloatStorage": 4,
    "torch IntStorage": 4,
    "torch HalfStorage": 2,
    "torch BFloat16Storage": 2,
    "torch ShortStorage": 2,
    "torch BoolStorage": 1,
    "torch ByteStorage": 1,
    "torch CharStorage": 1,
    "torch.storage UntypedStorage": 1,
}
_MEMO_WRITES = ("BINPUT", "LONG_BINPUT", "MEMOIZE")
_MEMO_READS = ("BINGET", "LONG_BINGET")
_CONSTANTS = ("BINUNICODE", "SHORT_BINUNICODE", "GLOBAL", "BININT", "BININT1", "BININT2", "LONG1")


class ForgedError(ValueError):
    """An archive whose declarations contradict each other; the text says how."""


def check_archive(path: Path) -> bool:
    """Check the sizes that a zip archive of ``torch.save`` declares.

    Returns:
        Whether memory-mapping is safe: every entry is stored uncompressed, lies inside the file without overlapping
        another, and every storage that the pickle names has exactly the size of its entry. ``False`` means that torch
        must copy the entries, which checks their sizes and checksums.

    Raises:
        ForgedError: A storage and its entry differ in size, two entries share a name, or sizes are out of proportion.
        zipfile.BadZipFile: Not a zip archive.
    """
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        _check_proportion(entries, path.stat().st_size)
        sizes = {entry.filename: entry.file_size for entry in entries}
        if len(sizes) < len(entries):
            raise ForgedError("two entries share one name")
        pickles = [name for name in sizes if name.endswith("/data.pkl")]
        if len(pickles) != 1 or sizes[pickles[0]] > _MAX_PICKLE:
            return False
        folder = pickles[0].removesuffix("data.pkl")
        understood = _check_storages(archive.read(pickles[0]), folder + "data/", sizes)
        return understood and _all_stored(path, entries)


def _check_proportion(entries: list[zipfile.ZipInfo], on_disk: int) -> None:
    declared = sum(entry.file_size for entry in entries)
    if declared > _SLACK + _MAX_RATIO * on_disk:
        raise ForgedError(f"declares {declared} bytes in a file of {on_disk}")


def _check_storages(pickled: bytes, folder: str, sizes: dict[str, int]) -> bool:
    """Compare each storage that the pickle names with its entry; ``False`` when the pickle is unusual."""
    storages = _named_storages(pickled)
    if storages is None:
        return False
    for key, declared in storages:
        entry = sizes.get(folder + key)
        if entry != declared:
            raise ForgedError(f"storage {key!r} declares {declared} bytes, its entry holds {entry}")
    return True


def _named_storages(pickled: bytes) -> list[tuple[str, int]] | None:
    """Key and bytes of each storage, or ``None`` if any is not spelled as ``torch.save`` spells it.

    That spelling is: mark, 'storage', class, key, device, number of items, tuple, persistent id.
    """
    memo: dict[int, object] = {}
    run: list[object] = []  # constants pushed since the last mark, or nothing after any other opcode
    closed: list[object] = []  # the run that the last opcode made a tuple of
    found: list[tuple[str, int]] = []
    for opcode, argument, _ in pickletools.genops(pickled):
        name = opcode.name
        if name in _MEMO_WRITES:
            place = len(memo) if argument is None else int(argument)
            memo[place] = run[-1] if run else None
            continue
        if name == "BINPERSID":
            storage = _read_storage(closed)
            if storage is None:
                return None
            found.append(storage)
        closed = run if name == "TUPLE" else []
        if name in _CONSTANTS:
            run.append(argument)
        elif name in _MEMO_READS:
            run.append(memo.get(int(argument or 0)))
        else:
            run = [_MARK] if name == "MARK" else []
    return found


_MARK = object()


def _read_storage(items: list[object]) -> tuple[str, int] | None:
    match items:
        case [mark, "storage", str(kind), str(key), str(), int(count)] if mark is _MARK and kind in _ITEM_SIZES:
            return key, count * _ITEM_SIZES[kind]
        case _:
            return None


def _all_stored(path: Path, entries: list[zipfile.ZipInfo]) -> bool:
    end = 0
    with path.open("rb") as file:
        for entry in sorted(entries, key=lambda entry: entry.header_offset):
            if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
                return False
            file.seek(entry.header_offset)
            header = file.read(_LOCAL_HEADER)
            if entry.header_offset < end or header[:4] != _LOCAL_MAGIC:
                return False
            names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
            end = entry.header_offset + _LOCAL_HEADER + names + entry.file_size
    return end <= path.stat().st_size
