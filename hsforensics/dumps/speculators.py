"""speculators 0.3 and 0.4: ``data_{i}.pt``, a dictionary whose ``hidden_states`` is a list of [S, H] tensors."""

from __future__ import annotations

import re
from pathlib import Path

from hsforensics.dumps.layout import CODE, REMEDY, Layout, Listing, RawSample
from hsforensics.dumps.tensors import channel_values, integer_row
from hsforensics.errors import HsfError
from hsforensics.models.safe_load import load_torch_file

_NAME = re.compile(r"data_\d+\.pt")


def find(listing: Listing) -> tuple[Path, ...]:
    """Every ``data_{i}.pt`` of a listing."""
    return tuple(folder / name for folder, names in listing for name in names if _NAME.fullmatch(name))


def read(file: Path) -> RawSample:
    """Read one ``data_{i}.pt``.

    Raises:
        HsfError: ``dump-unreadable``.
    """
    data = load_torch_file(file, CODE)
    if not isinstance(data, dict):
        raise HsfError(CODE, file, f"must hold a dictionary, got {type(data).__name__}", REMEDY)
    for key in ("input_ids", "hidden_states"):
        if key not in data:
            held = ", ".join(sorted(repr(name)[:40] for name in data)[:8]) or "nothing"
            raise HsfError(CODE, file, f"lacks the key '{key}' (it holds {held})", REMEDY)
    states = data["hidden_states"]
    if not isinstance(states, (list, tuple)) or not states:
        got = "an empty list" if isinstance(states, (list, tuple)) else type(states).__name__
        raise HsfError(CODE, file, f"hidden_states must be a list of tensors, got {got}", REMEDY)
    labels = tuple(f"hidden_states[{index}]" for index in range(len(states)))
    values = tuple(channel_values(state, file, label) for state, label in zip(states, labels, strict=True))
    mask = data.get("loss_mask")
    return RawSample(
        token_ids=integer_row(data["input_ids"], file, "input_ids"),
        labels=labels,
        values=values,
        loss_mask=None if mask is None else integer_row(mask, file, "loss_mask"),
    )


LAYOUT = Layout("speculators 0.3/0.4", "files data_{i}.pt, each a torch.save dictionary", find, read)
