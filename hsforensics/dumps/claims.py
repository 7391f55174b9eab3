"""Claims: what a file beside the data says its channels are. They are shown next to the evidence, never believed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from hsforensics.states import State

NAME = "data_config.json"


def recorded_claims(root: Path, files: Iterable[Path], channels: int) -> tuple[tuple[State, ...], str] | None:
    """The claims of the ``data_config.json`` files at the root and beside the data, and which file makes them.

    speculators 0.3 and 0.4 record ``hidden_states.layer_ids``, output-of-layer numbers: id i is state i + 1, and -1 is
    the embedding.

    Args:
        root: The dump's directory.
        files: Its samples; configs in the directories that hold them count too.
        channels: Number of channels that the claims must fit.

    Returns:
        ``None`` when there is no such file, none fits, or two contradict each other.
    """
    folders = dict.fromkeys((root, *(file.parent for file in files)))
    found = {folder / NAME: _states_in(folder / NAME) for folder in folders}
    fitting = {file: states for file, states in found.items() if states is not None and len(states) == channels}
    if len(set(fitting.values())) != 1:
        return None
    file, states = next(iter(fitting.items()))
    shown = file.relative_to(root) if file.is_relative_to(root) else file
    return states, f"{shown}: hidden_states.layer_ids"


def _states_in(file: Path) -> tuple[State, ...] | None:
    try:
        ids = json.loads(file.read_text(encoding="utf-8"))["hidden_states"]["layer_ids"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None  # a claim that cannot be read is no claim; the values speak for themselves
    if not isinstance(ids, list) or not all(type(item) is int and item >= -1 for item in ids):
        return None
    return tuple(item + 1 for item in ids)
