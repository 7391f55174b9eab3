"""The id rules themselves: pure functions from a config's layer ids to the states that an engine asks its model for.

A state is captured as the input of layer ``i`` (or as the output of layer ``i - 1``, which is the same tensor), so what
a rule gives are numbers of states, in the list's order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from hsforensics.states import POSTNORM, State

Ids: TypeAlias = tuple[int, ...]

Asked: TypeAlias = tuple[State, ...]
"""What a rule asks for: state numbers, perhaps outside of the model, and ``postnorm`` where an engine can give it."""


def plus_one(ids: Ids, layers: int | None = None) -> Ids:  # noqa: ARG001
    """An id names the layer whose output is wanted: state ``id + 1``."""
    return tuple(value + 1 for value in ids)


def as_is(ids: Ids, layers: int | None = None) -> Ids:  # noqa: ARG001
    """An id is a state's number."""
    return ids


def plus_one_if_first_is_one(ids: Ids, layers: int | None = None) -> Ids:  # noqa: ARG001
    """A list that starts with 1 is read by ``plus_one``; any other list holds state numbers already."""
    return plus_one(ids) if ids[:1] == (1,) else ids


def as_is_if_last_is_named(ids: Ids, layers: int | None) -> Ids:
    """A list that names L itself holds state numbers; any other is read by ``plus_one``."""
    return ids if ids and max(ids) == layers else plus_one(ids)


def plus_one_minus_one_is_postnorm(ids: Ids, layers: int | None = None) -> Asked:  # noqa: ARG001
    """``plus_one``, except that -1 asks for postnorm."""
    return tuple(POSTNORM if value == -1 else value + 1 for value in ids)


def ignores_ids(ids: Ids, layers: int | None = None) -> None:  # noqa: ARG001 (that nothing is used is the rule)
    """The engine never looks at the ids: it always captures its default."""
    return


def captures_nothing(ids: Ids, layers: int | None = None) -> Ids:  # noqa: ARG001 (likewise)
    """The ids are stored where the forward pass never looks."""
    return ()


def fails(ids: Ids, layers: int | None = None) -> Ids:  # noqa: ARG001 (likewise)
    """The hook is there, but the model inside lacks what it calls, so the engine fails when it starts."""
    return ()


def residual_left_out(ids: Ids, layers: int | None = None) -> Ids:  # noqa: ARG001 (likewise)
    """What is captured is a layer's output without the residual: no state of the target, whatever the ids."""
    return ()


def overwritten(ids: Ids, layers: int | None = None) -> Ids:  # noqa: ARG001 (likewise)
    """What is captured is memory that the layer then overwrites: no state of the target, whatever the ids."""
    return ()


Rule: TypeAlias = Callable[[Ids, int | None], Asked | None]

RULES: dict[str, Rule] = {
    "plus_one": plus_one,
    "as_is": as_is,
    "plus_one_if_first_is_one": plus_one_if_first_is_one,
    "as_is_if_last_is_named": as_is_if_last_is_named,
    "plus_one_minus_one_is_postnorm": plus_one_minus_one_is_postnorm,
    "ignores_ids": ignores_ids,
    "captures_nothing": captures_nothing,
    "fails": fails,
    "residual_left_out": residual_left_out,
    "overwritten": overwritten,
}
"""Rule name -> (ids, L) to states asked for, in the list's order; ``None`` stands for the default."""

MEANINGS: Final[dict[str, str]] = {
    "plus_one": "an id names the layer whose output is wanted: state id + 1",
    "as_is": "an id is a state's number",
    "plus_one_if_first_is_one": "an id is a state's number, unless the list starts with 1: then every id means id + 1",
    "as_is_if_last_is_named": "an id means state id + 1, unless the list names L itself: then ids are state numbers",
    "plus_one_minus_one_is_postnorm": "an id means state id + 1, and -1 means postnorm",
    "ignores_ids": "the engine never looks at ids, and always serves its default",
    "captures_nothing": "ids are stored where the forward pass never looks: nothing is captured, whatever they are",
    "fails": "the model inside lacks what the hook calls: the engine fails when it starts, whatever the ids",
    "residual_left_out": "a layer's output is served without the residual: no state of the target, whatever the ids",
    "overwritten": "memory is served that the layer then overwrites: no state of the target, whatever the ids",
}
"""Rule name -> what ids mean under it, in plain words."""

NO_STATE: Final = ("residual_left_out", "overwritten")
"""Rules under which an engine runs, and serves something that is no state of the target. Their setters look sound."""

HOPELESS: Final = (*NO_STATE, "captures_nothing", "fails")
"""Rules under which no ids help."""


def canonical(layers: int) -> Ids:
    """The default of all stacks: states ``2``, ``L // 2`` and ``L - 3``."""
    return (2, layers // 2, layers - 3)


def canonical_plus_one(layers: int) -> Ids:
    """The default of one wrapper that shifts it like ids: states ``3``, ``L // 2 + 1`` and ``L - 2``."""
    return plus_one(canonical(layers))


def spread(layers: int) -> Ids:  # noqa: ARG001 (it depends on the drafter, not on the target alone)
    """As many states as the drafter has layers, evenly spaced: not known from the target."""
    return ()


def refused(layers: int) -> Ids:  # noqa: ARG001 (there is no default)
    """Without ids the engine refuses to start."""
    return ()


DEFAULTS: dict[str, Callable[[int], Ids]] = {
    "canonical": canonical,
    "canonical_plus_one": canonical_plus_one,
    "spread": spread,
    "refused": refused,
    "none": refused,
}
"""Default's name -> L to states, when the engine finds no ids; nothing for ``spread``, ``refused``, ``none``."""
