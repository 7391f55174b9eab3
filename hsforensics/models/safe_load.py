"""The one way this package opens a ``torch.save`` file.

``weights_only=True`` always, and memory-mapping only after every entry of the zip archive has been checked: torch maps
a compressed entry, or one with a forged size, without a word and returns neighbouring bytes (observed with torch 2.11
and 2.13).
"""

from __future__ import annotations

import pickle
import zipfile
from typing import TYPE_CHECKING, Any

from hsforensics.errors import HsfError

if TYPE_CHECKING:
    from pathlib import Path

_REMEDY = "copy or produce the file again"


def load_torch_file(path: Path, code: str) -> Any:
    """Load a ``torch.save`` file onto the CPU without running any code in it.

    Args:
        path: The file.
        code: Error code for the user's message.

    Returns:
        Whatever was saved; tensors of stored archives are memory-mapped, read-only in effect (private pages).

    Raises:
        HsfError: The file is missing, torn, or needs code to be unpickled.
    """
    import torch

    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise HsfError(code, path, "the file does not exist", "check the path") from None
    except pickle.UnpicklingError as error:
        raise HsfError(code, path, f"refused as unsafe: {_first_line(error)}", "save plain tensors instead") from None
    except (EOFError, OSError, RuntimeError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise HsfError(code, path, f"torn or not a torch file ({_first_line(error)})", _REMEDY) from None
    return loaded


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:160]
