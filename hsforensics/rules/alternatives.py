"""Other ways to have states served when one engine version cannot, or in another spelling when it can."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from hsforensics.errors import HsfError
from hsforensics.results_rules import NOWHERE, RuleAlternative
from hsforensics.rules.forward import Serving, apply_rule, find_serving
from hsforensics.rules.functions import Ids
from hsforensics.rules.inverse import candidates, ids_to_write, permute_command, versions_that_serve
from hsforensics.rules.lookup import EngineVersion, covers
from hsforensics.rules.tables import ENGINES
from hsforensics.states import State, show_wiring, state_order

Kind: TypeAlias = Literal["spelling", "order", "version", "engine", "nearest"]

_OTHERS = ("sglang", "vllm", "tensorrt-llm")
_PERMUTE = "reorder the column blocks of fc.weight once, into a new checkpoint that computes the same"


def spellings(serving: Serving, states: tuple[State, ...], ids: Ids) -> Iterator[RuleAlternative]:
    """Other lists that serve the same states."""
    for other in dict.fromkeys(candidates(states)):
        if sorted(other) != sorted(ids) and apply_rule(serving.rule, other, serving.layers)[0] == states:
            yield _alternative("spelling", serving, states, other, "nothing: it serves the same")


def other_ways(serving: Serving, states: tuple[State, ...]) -> Iterator[RuleAlternative]:
    """Ways to serve states that no list of ids asks this engine version for, the cheapest first."""
    ascending = tuple(sorted(set(states), key=state_order))
    if len(ascending) < len(states):
        return  # a state named twice: no engine has two of one
    if states != ascending:
        yield from _here("order", serving, ascending, f"{_PERMUTE}: {permute_command(serving, states)}")
    price = "" if states == ascending else f"{_PERMUTE}, and "
    yield from _versions(serving, ascending, price)
    yield from _engines(serving, ascending, price)
    yield from _nearest(serving, ascending)


def where_to_write(serving: Serving) -> str | None:
    """The config key, or the launch argument, that an engine reads first; ``None`` if it reads none."""
    return serving.reading.ids_key or serving.reading.argument


def _here(kind: Kind, serving: Serving, states: tuple[State, ...], cost: str) -> Iterator[RuleAlternative]:
    ids = _ids(serving, states)
    if ids is not None:
        yield _alternative(kind, serving, states, ids, cost)


def _versions(serving: Serving, states: tuple[State, ...], price: str) -> Iterator[RuleAlternative]:
    engine = serving.engine.name
    for versions in versions_that_serve(states, engine, serving.architecture, serving.layers, serving.method):
        if covers(versions, serving.engine.version):
            continue  # it serves them already, once in this order
        start = versions.split(",")[0].removeprefix(">=")
        other = _serving(EngineVersion(engine, start), serving)
        ids = _ids(other, states) if other else None
        if other is not None and ids is not None and where_to_write(other):
            yield _alternative("version", other, states, ids, f"{price}serve with another version", versions)


def _engines(serving: Serving, states: tuple[State, ...], price: str) -> Iterator[RuleAlternative]:
    for name in _OTHERS:
        if name == ENGINES[serving.engine.name].rules_of:
            continue
        newest = ENGINES[name].newest
        other = _serving(EngineVersion(name, newest or "1.0"), serving)
        ids = _ids(other, states) if other else None
        if other is not None and ids is not None and where_to_write(other):
            yield _alternative("engine", other, states, ids, f"{price}serve with another engine")


def _nearest(serving: Serving, states: tuple[State, ...]) -> Iterator[RuleAlternative]:
    """The ends of the model moved one layer inwards: what an engine without state 0 or state L can serve."""
    layers = serving.layers
    moved = tuple(1 if state == 0 else layers - 1 if layers and state == layers else state for state in states)
    close = tuple(state for state in moved if isinstance(state, int))
    if moved != states and len(set(close)) == len(states):
        cost = f"the drafter is fed {show_wiring(moved)}, not what it was trained on: measure the loss with draft-eval"
        yield from _here("nearest", serving, close, f"{cost}, or train on these")


def _serving(engine: EngineVersion, like: Serving) -> Serving | None:
    try:
        return find_serving(engine, like.architecture, like.layers, like.method)
    except HsfError:
        return None


def _ids(serving: Serving, states: tuple[State, ...]) -> Ids | None:
    try:
        return ids_to_write(serving, states)
    except HsfError:
        return None


def _alternative(
    kind: Kind, serving: Serving, states: tuple[State, ...], ids: Ids, cost: str, versions: str | None = None
) -> RuleAlternative:
    return RuleAlternative(kind, str(serving.engine), versions, states, ids, where_to_write(serving) or NOWHERE, cost)
