"""Writes small dumps in the layouts that the readers know."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

HIDDEN = 6


def channels(rows: int, count: int, dtype: torch.dtype = torch.bfloat16) -> list[Tensor]:
    """``count`` channels [rows, HIDDEN]; channel c, row r starts with 100 c + r."""
    base = torch.arange(rows)[:, None] + torch.arange(HIDDEN) / 8  # [rows, HIDDEN]
    return [(100 * channel + base).to(dtype) for channel in range(count)]


def speculators_file(path: Path, rows: int = 5, count: int = 4, **changes: object) -> Path:
    """One ``data_{i}.pt``; a change to ``None`` removes the key."""
    data: dict[str, object] = {
        "input_ids": torch.arange(rows),
        "hidden_states": channels(rows, count),
        "loss_mask": torch.ones(rows, dtype=torch.int64),
    }
    data |= changes
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({key: value for key, value in data.items() if value is not None}, path)
    return path


def request(folder: Path, rows: int = 5, count: int = 3, *, final: bool = True, tokens: bool = True) -> Path:
    """One raw request directory."""
    folder.mkdir(parents=True)
    values = channels(rows, count + 1)
    for index in range(count):
        torch.save(values[index], folder / f"aux_{index}.pt")
    if final:
        torch.save(values[count], folder / "final.pt")
    if tokens:
        torch.save(torch.arange(rows), folder / "token_ids.pt")
    return folder


def config(folder: Path, layer_ids: Sequence[object]) -> None:
    """A ``data_config.json`` that records these layer ids."""
    (folder / "data_config.json").write_text(json.dumps({"hidden_states": {"layer_ids": list(layer_ids)}}))
