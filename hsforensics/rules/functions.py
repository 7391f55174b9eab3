"""The id rules themselves: pure functions from a config's layer ids to the loop indices that an engine captures at.

A capture at loop index ``i`` happens before layer ``i`` runs, so the index is the state's number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Ids: TypeAlias = tuple[int, ...]


def plus_one(ids: Ids) -> Ids:
    """An id names the layer whose output is wanted: state ``id + 1``."""
    return tuple(value + 1 for value in ids)


def plus_one_if_first_is_one(ids: Ids) -> Ids:
    """A list that starts with 1 is read by ``plus_one``; any other list holds state numbers already."""
    return plus_one(ids) if ids[:1] == (1,) else ids


def ignores_ids(ids: Ids) -> None:  # noqa: ARG001 (that it is not used is the rule)
    """The engine never looks at the ids: it always captures its default."""
    return


RULES: dict[str, Callable[[Ids], Ids | None]] = {
    "plus_one": plus_one,
    "plus_one_if_first_is_one": plus_one_if_first_is_one,
    "ignores_ids": ignores_ids,
}
"""Rule name -> ids to capture indices, in the list's order; ``None`` stands for the default."""


def canonical(layers: int) -> Ids:
    """The default of all stacks: states ``2``, ``L // 2`` and ``L - 3``."""
    return (2, layers // 2, layers - 3)


DEFAULTS: dict[str, Callable[[int], Ids]] = {"canonical": canonical}
"""Default's name -> L to capture indices, when the engine finds no ids."""
