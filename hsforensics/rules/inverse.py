"""From a wiring to the layer ids that make an engine serve it: candidates, each checked with the forward rule."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from hsforensics.errors import HsfError
from hsforensics.rules.forward import Serving, apply_rule, find_serving, serve
from hsforensics.rules.functions import NO_STATE, Ids
from hsforensics.rules.lookup import EngineVersion, class_rows, find_reading, find_rule, readings_of, rules_of
from hsforensics.rules.rows import IdRule, Method
from hsforensics.rules.tables import RUNNERS
from hsforensics.shell import quoted
from hsforensics.states import POSTNORM, State, show_state, show_wiring, state_order


def ids_for(
    wiring: tuple[State, ...],
    engine: str,
    version: str,
    architecture: str,
    layers: int | None,
    method: Method = "eagle3",
) -> Ids:
    """The most conventional list of layer ids that makes this engine serve exactly this wiring.

    No inverse formula is trusted: candidate lists (the state numbers, then one less, each also with another element
    in front) are tried in order of convention, and the first that ``states_for`` maps to ``wiring`` is returned.

    Args:
        wiring: States in ``fc`` order.
        engine: Name, such as ``sglang``.
        version: PEP 440 version of the engine.
        architecture: The target's model class.
        layers: L of the target; ``None`` skips the checks that need it.
        method: Kind of drafter.

    Raises:
        HsfError: ``not-expressible`` with the reason and the alternatives, or ``rule-unknown``.
    """
    return ids_to_write(find_serving(EngineVersion(engine, version), architecture, layers, method), wiring)


def ids_to_write(serving: Serving, wiring: tuple[State, ...]) -> Ids:
    """The most conventional list of layer ids that makes this engine serve exactly this wiring; see ``ids_for``.

    Raises:
        HsfError: ``not-expressible`` with the reason and the alternatives.
    """
    states = _joinable(serving, wiring)
    slots = serving.reading.slots
    ids = search_rule(states, serving.rule, serving.layers) if slots in (None, len(states)) else None
    if ids is None:
        raise HsfError("not-expressible", serving, _reason(serving, states), _remedy(serving, states))
    return ids


def versions_that_serve(
    wiring: tuple[State, ...], engine: str, architecture: str, layers: int | None, method: Method = "eagle3"
) -> tuple[str, ...]:
    """Version ranges of an engine that can be made to serve an ascending wiring, oldest first."""
    starts = _starts(engine, architecture, method)
    able = [_able(wiring, engine, start, architecture, layers, method) for start in starts]
    found: list[str] = []
    for place, start in enumerate(starts):
        if able[place] and not (place and able[place - 1]):
            end = next((starts[later] for later in range(place, len(starts)) if not able[later]), None)
            found.append(f">={start},<{end}" if end else f">={start}")
    return tuple(found)


def search(
    states: tuple[State, ...],
    engine: str,
    version: str,
    architecture: str,
    layers: int | None,
    method: Method = "eagle3",
) -> Ids | None:
    """The first candidate list that serves an ascending wiring, or ``None``.

    Raises:
        HsfError: ``rule-unknown``.
    """
    if find_reading(engine, version, architecture, method).slots not in (None, len(states)):
        return None
    rule = find_rule(engine, version, architecture, method)
    return search_rule(states, rule, layers)


def search_rule(states: tuple[State, ...], rule: IdRule, layers: int | None) -> Ids | None:
    """The first candidate list that a rule maps to an ascending wiring, or ``None``."""
    for ids in candidates(states):
        if apply_rule(rule, ids, layers)[0] == states:
            return ids
    return None


def _able(
    wiring: tuple[State, ...], engine: str, version: str, architecture: str, layers: int | None, method: Method
) -> bool:
    try:
        return search(wiring, engine, version, architecture, layers, method) is not None
    except HsfError:  # a gap between two versions looked at
        return False


def candidates(states: tuple[State, ...]) -> Iterator[Ids]:
    """Lists worth trying, the most conventional spelling first; postnorm can only be written -1."""
    for shift in (0, -1):
        plain = tuple(state + shift if isinstance(state, int) else -1 for state in states)
        yield plain
        for first in plain[1:]:
            yield (first, *(value for value in plain if value != first))


def _joinable(serving: Serving, wiring: tuple[State, ...]) -> tuple[State, ...]:
    """The wiring itself, if any engine could join these states in this order at all."""
    where, layers = serving, serving.layers
    retrain = "retrain on states that engines capture"
    has_postnorm = serving.rule.rule == "plus_one_minus_one_is_postnorm"
    for state in wiring:
        if not isinstance(state, int) and not (state == POSTNORM and has_postnorm):
            message = f"'{state}' is no input of a decoder layer, and this engine captures nothing else"
            raise HsfError("not-expressible", where, message, retrain)
    if len(set(wiring)) < len(wiring):
        message = f"{show_wiring(wiring)} names a state twice, and engines capture each layer once"
        raise HsfError("not-expressible", where, message, retrain)
    ascending = tuple(sorted(wiring, key=state_order))
    if wiring != ascending:
        message = (
            f"{show_wiring(wiring)} is not ascending, and engines join states in ascending order whatever the order "
            f"of the ids, so they can only serve {show_wiring(ascending)}"
        )
        remedy = f"retrain, or permute the column blocks of fc.weight: {permute_command(serving, wiring)}"
        raise HsfError("not-expressible", where, message, remedy)
    highest = max((state for state in wiring if isinstance(state, int)), default=0)
    if layers is not None and highest > layers:
        message = f"state {highest} does not exist: {layers} layers have the states 0 to {layers}"
        raise HsfError("not-expressible", where, message, "check the wiring and the number of layers")
    return wiring


def permute_command(serving: Serving, wiring: tuple[State, ...]) -> str:
    """What to type for a wiring that does not ascend; DRAFTER and PERMUTED are left open."""
    states = ",".join(map(str, wiring))
    model = ["--architecture", quoted(serving.architecture) or "CLASS"]
    model += [] if serving.layers is None else ["--layers", str(serving.layers)]
    options = ["--wiring", states, "--engine", str(serving.engine), *model, "--permute-fc", "--output", "PERMUTED"]
    return " ".join(["hsforensics", "fix-config", "DRAFTER", *options])


def _reason(serving: Serving, states: tuple[State, ...]) -> str:
    """Why no list of ids serves an ascending wiring."""
    rule, slots, layers = serving.rule, serving.reading.slots, serving.layers
    if rule.rule == "ignores_ids":
        return f"this version never reads layer ids: it always serves {show_wiring(serve(serving, None).states)}"
    if rule.rule in ("captures_nothing", "fails", *NO_STATE):
        return f"whatever the ids: {apply_rule(rule, (1,), layers)[1]}"
    if slots not in (None, len(states)):
        return f"this version joins exactly {slots} states, and {show_wiring(states)} has {len(states)}"
    if 0 in states and not rule.state_zero:
        return f"asking for {show_state(0)} crashes this version"
    if layers in states and rule.last_state != "captured":
        end = "asking for it crashes this version" if rule.last_state == "crashes" else "this version never captures it"
        return f"state {layers} is what leaves the last layer: {end}"
    return f"no list of ids means {show_wiring(states)} under the rule '{rule.rule}'"


def _remedy(serving: Serving, states: tuple[State, ...]) -> str:
    engine = serving.engine.name
    able = versions_that_serve(states, engine, serving.architecture, serving.layers, serving.method)
    if able:
        return f"serve with {engine} {' or '.join(able)}; another order of the ids cannot help"
    return f"no version of {engine} looked at can: retrain on other states; another order of the ids cannot help"


def _starts(engine: str, architecture: str, method: Method) -> tuple[str, ...]:
    """First versions of the ranges in which nothing that matters to a class changes, oldest first."""
    rows = class_rows(engine, architecture, method)
    readings = {engine: readings_of(engine, method)}
    for choice in RUNNERS:
        if choice.engine == engine:
            readings[choice.runner] = readings_of(choice.runner, method)
    ranges = [
        *(row.versions for found in readings.values() for row in found),
        *(rule.versions for row in rows for rule in rules_of(row)),
        *(choice.versions for choice in RUNNERS if choice.engine == engine),
    ]
    lows = {versions.split(",")[0].removeprefix(">=") for versions in ranges} | {row.since for row in rows}
    lows |= {row.until for row in rows if row.until is not None}
    first = min((Version(row.since) for row in rows), default=Version("0"))
    return tuple(sorted((low for low in lows if Version(low) >= first), key=Version))
