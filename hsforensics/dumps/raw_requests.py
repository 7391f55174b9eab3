"""Raw request directories, as an engine patched by hand writes them: ``aux_0.pt``, ``aux_1.pt``, ..., ``final.pt``.

One directory for each request, one tensor for each file, and the token ids beside them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from hsforensics.dumps.layout import CODE, REMEDY, Layout, Listing, RawSample, natural
from hsforensics.dumps.tensors import channel_values, integer_row
from hsforensics.errors import HsfError
from hsforensics.models.safe_load import load_torch_file

if TYPE_CHECKING:
    from torch import Tensor

_CHANNEL = re.compile(r"(aux_\d+|final)\.pt")
_TOKEN_KEYS = ("input_ids", "token_ids", "tokens")
_TOKEN_TENSORS = tuple(f"{key}.pt" for key in _TOKEN_KEYS)
_TOKEN_JSONS = (*(f"{key}.json" for key in _TOKEN_KEYS), "meta.json", "metadata.json")
_ID_LIMIT = 1 << 31


def find(listing: Listing) -> tuple[Path, ...]:
    """Every directory that holds a channel; once there is one, also directories that hold only token ids (torn)."""
    with_channels = {folder for folder, names in listing if any(_CHANNEL.fullmatch(name) for name in names)}
    if not with_channels:
        return ()
    torn = {folder for folder, names in listing if set(_TOKEN_TENSORS).intersection(names)}
    return tuple(folder for folder, _ in listing if folder in with_channels | torn)


def read(folder: Path) -> RawSample:
    """Read one request directory.

    Raises:
        HsfError: ``dump-unreadable``.
    """
    files = _channel_files(folder)
    if not files:
        raise HsfError(CODE, folder, "holds token ids but no aux_0.pt: the request is incomplete", REMEDY)
    mask = folder / "loss_mask.pt"
    return RawSample(
        token_ids=_token_ids(folder),
        labels=tuple(file.stem for file in files),
        values=tuple(channel_values(load_torch_file(file, CODE), file, file.stem) for file in files),
        loss_mask=integer_row(load_torch_file(mask, CODE), mask, "loss_mask") if mask.exists() else None,
    )


def _channel_files(folder: Path) -> list[Path]:
    try:
        names = sorted((file.name for file in folder.iterdir()), key=natural)
    except OSError as error:
        raise HsfError(CODE, folder, f"cannot be listed ({error.strerror})", REMEDY) from None
    return [folder / name for name in names if _CHANNEL.fullmatch(name)]


def _token_ids(folder: Path) -> Tensor:
    for name in _TOKEN_TENSORS:
        if (file := folder / name).exists():
            return integer_row(load_torch_file(file, CODE), file, file.stem)
    for name in _TOKEN_JSONS:
        if (file := folder / name).exists() and (ids := _ids_in_json(file)) is not None:
            return _row_of_ids(ids, file)
    allowed = ", ".join((*_TOKEN_TENSORS, *_TOKEN_JSONS))
    raise HsfError(
        CODE, folder, f"holds no token ids; known names are {allowed}", "put the token ids beside the tensors"
    )


def _ids_in_json(file: Path) -> object:
    """The token ids of a JSON file: a list, or a known key of an object; ``None`` when it has neither."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise HsfError(CODE, file, f"not readable as JSON ({error})", REMEDY) from None
    if isinstance(data, dict):
        return next((data[key] for key in _TOKEN_KEYS if key in data), None)
    return data


def _row_of_ids(ids: object, file: Path) -> Tensor:
    import torch

    if isinstance(ids, list) and len(ids) == 1 and isinstance(ids[0], list):
        ids = ids[0]
    if not isinstance(ids, list) or not all(type(item) is int and abs(item) < _ID_LIMIT for item in ids):
        raise HsfError(CODE, file, "token ids must be a list of integers", REMEDY)
    return torch.tensor(ids, dtype=torch.int64)


LAYOUT = Layout("raw request directories", "a directory for each request with aux_0.pt, aux_1.pt, ...", find, read)
