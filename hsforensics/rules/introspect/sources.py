"""The Python text of an SGLang's model classes: from a wheel, an unpacked wheel, or the installed package.

Nothing is imported: files are read as text, and only those of ``sglang/srt/models``.
"""

from __future__ import annotations

import importlib.util
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hsforensics.errors import HsfError

_MODELS = "sglang/srt/models/"
_METADATA = re.compile(r"sglang-[^/]+\.dist-info/METADATA")
_VERSION = re.compile(r"^Version: (.+)$", re.MULTILINE)
_LARGEST = 8_000_000  # bytes of one source file; the largest real one is a twentieth of that
_ALL = 100_000_000  # of all of them together; a real wheel holds 11 MB
_REMEDY = "give a .whl file, the directory of an unpacked wheel, or the word 'installed'"


@dataclass(frozen=True)
class Sources:
    """Model files of one SGLang.

    Attributes:
        origin: Where they come from, for messages.
        version: As its metadata says; ``None`` when there is none.
        files: Module name such as ``sglang.srt.models.llama`` -> source text.
    """

    origin: str
    version: str | None
    files: dict[str, str]


def read_sources(place: str) -> Sources:
    """Read the model files of an SGLang.

    Args:
        place: A ``.whl`` file, a directory that holds ``sglang/``, or ``installed``.

    Raises:
        HsfError: ``not-found``, or ``engine-unreadable`` when no SGLang model files are there.
    """
    path = _installed() if place == "installed" else Path(place)
    if not path.exists():
        raise HsfError("not-found", place, "does not exist", _REMEDY)
    try:
        members = dict(_from_wheel(path) if path.is_file() else _from_directory(path))
    except (OSError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise HsfError("engine-unreadable", place, f"is no readable wheel or directory ({error})", _REMEDY) from None
    files = {_module(name): text for name, text in members.items() if name.startswith(_MODELS)}
    if not files:
        raise HsfError("engine-unreadable", place, f"holds no {_MODELS}*.py", _REMEDY)
    return Sources(str(path), _version(members), files)


def _installed() -> Path:
    spec = importlib.util.find_spec("sglang")  # finds a top-level package without importing it
    if spec is None or not spec.origin:
        raise HsfError("engine-unreadable", "sglang", "is not installed in this Python", _REMEDY)
    return Path(spec.origin).parent.parent


def _from_wheel(path: Path) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(path) as wheel:
        wanted = [item for item in wheel.infolist() if _wanted(item.filename) and item.file_size <= _LARGEST]
        if sum(item.file_size for item in wanted) > _ALL:
            raise OSError(f"more than {_ALL} bytes of model files")
        for item in wanted:
            yield item.filename, wheel.read(item).decode("utf-8")


def _from_directory(path: Path) -> Iterator[tuple[str, str]]:
    root = path.parent if path.name == "sglang" and not (path / "sglang").is_dir() else path
    found = (*root.glob(f"{_MODELS}**/*.py"), *root.glob("sglang-*.dist-info/METADATA"))
    for file in found:
        if file.stat().st_size <= _LARGEST:
            yield file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")


def _wanted(name: str) -> bool:
    return (name.startswith(_MODELS) and name.endswith(".py")) or _METADATA.fullmatch(name) is not None


def _version(members: dict[str, str]) -> str | None:
    for name, text in members.items():
        if _METADATA.fullmatch(name) and (match := _VERSION.search(text)):
            return match[1].strip()
    return None


def _module(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
