"""The one way this package opens a ``torch.save`` file.

``weights_only=True`` always, and memory-mapping only after every entry of the zip archive has been checked: torch maps
a compressed entry, or one with a forged size, without a word and returns neighbouring bytes (observed with torch 2.11
and 2.13).
"""

from __future__ import annotations

import pickle
import re
import stat
import struct
import zipfile
from typing import TYPE_CHECKING, Any

from hsforensics.errors import HsfError
from hsforensics.models.torch_archive import ForgedError, check_archive

if TYPE_CHECKING:
    from pathlib import Path

_REMEDY = "copy or produce the file again"
_ZIP_MAGIC = b"PK\x03\x04"
_PICKLE_MAGIC = b"\x80"
_REFUSED_NAME = re.compile(r"GLOBAL ([\w.]+\w)")
_TORN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
)
"""What torch raises on bytes that are not what they claim to be (seen, or reachable from its unpickler)."""


def load_torch_file(path: Path, code: str) -> Any:
    """Load a ``torch.save`` file onto the CPU without running any code in it.

    Args:
        path: The file.
        code: Error code for the user's message.

    Returns:
        Whatever was saved. Tensors of a checked, uncompressed archive are memory-mapped: pages are read when touched,
        and writing to them never reaches the file. Shortening the file while it is mapped kills the process.

    Raises:
        HsfError: The file is missing, no regular file, torn, forged, or needs code to be unpickled.
    """
    import torch

    magic = _first_bytes(path, code)
    if magic[:4] != _ZIP_MAGIC and magic[:1] != _PICKLE_MAGIC:
        raise HsfError(code, path, f"not a torch file (it begins with {magic[:8]!r})", _REMEDY)
    try:
        mapped = magic[:4] == _ZIP_MAGIC and check_archive(path)
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except ForgedError as error:
        raise HsfError(code, path, f"refused: {error}", _REMEDY) from None
    except pickle.UnpicklingError as error:
        raise _unpickling_error(path, code, error) from None
    except _TORN as error:
        raise HsfError(code, path, f"torn or not a torch file ({_first_line(error)})", _REMEDY) from None


def _first_bytes(path: Path, code: str) -> bytes:
    """The first bytes of a regular file that has some; a pipe or a device is never opened."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise HsfError(code, path, "not a regular file", "point at the file itself")
        if status.st_size == 0:
            raise HsfError(code, path, "the file is empty (0 bytes)", _REMEDY)
        with path.open("rb") as file:
            return file.read(8)
    except FileNotFoundError:
        raise HsfError(code, path, "the file does not exist", "check the path") from None
    except OSError as error:
        raise HsfError(code, path, f"cannot be read ({error.strerror or error})", "check the path") from None


def _unpickling_error(path: Path, code: str, error: pickle.UnpicklingError) -> HsfError:
    # torch's own message tells people how to switch the check off, so only the refused name is taken from it
    text = str(error)
    if refused := _REFUSED_NAME.search(text):
        return HsfError(code, path, f"refused as unsafe: it wants to call {refused[1]}", "save plain tensors instead")
    lines = (line.strip() for line in text.splitlines())
    reason = next((line for line in lines if line.startswith("WeightsUnpickler error:")), "no plain data inside")
    reason = reason.removeprefix("WeightsUnpickler error:").strip()[:100]
    return HsfError(code, path, f"torn or not a torch file ({reason})", _REMEDY)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:160]
