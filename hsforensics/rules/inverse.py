"""From a wiring to the layer ids that make an engine serve it: candidates, each checked with the forward rule."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from hsforensics.errors import HsfError
from hsforensics.rules.forward import default_states, states_for
from hsforensics.rules.functions import Ids
from hsforensics.rules.lookup import find_class, find_reading, find_rule, rules_of
from hsforensics.rules.tables import CONFIG_READINGS, ENGINES
from hsforensics.states import State, show_state, show_wiring


def ids_for(wiring: tuple[State, ...], engine: str, version: str, architecture: str, layers: int | None) -> Ids:
    """The most conventional list of layer ids that makes this engine serve exactly this wiring.

    No inverse formula is trusted: candidate lists (the state numbers, then one less, each also with another element
    in front) are tried in order of convention, and the first that ``states_for`` maps to ``wiring`` is returned.

    Args:
        wiring: States in ``fc`` order.
        engine: Name, such as ``sglang``.
        version: PEP 440 version of the engine.
        architecture: The target's model class.
        layers: L of the target; ``None`` skips the checks that need it.

    Raises:
        HsfError: ``not-expressible`` with the reason and the alternatives, or ``rule-unknown``.
    """
    where = f"{engine}=={version}, {architecture}"
    find_rule(engine, version, architecture)
    numbers = _joinable(wiring, where, layers)
    ids = _search(numbers, engine, version, architecture, layers)
    if ids is None:
        reason = _reason(numbers, engine, version, architecture, layers)
        raise HsfError("not-expressible", where, reason, _remedy(numbers, engine, architecture, layers))
    return ids


def versions_that_serve(wiring: Ids, engine: str, architecture: str, layers: int | None) -> tuple[str, ...]:
    """Version ranges of an engine that can be made to serve an ascending wiring, oldest first.

    Raises:
        HsfError: ``rule-unknown`` when the class has no rule at all.
    """
    starts = _starts(engine, architecture)
    able = [_search(wiring, engine, start, architecture, layers) is not None for start in starts]
    found: list[str] = []
    for place, start in enumerate(starts):
        if able[place] and not (place and able[place - 1]):
            end = next((starts[later] for later in range(place, len(starts)) if not able[later]), None)
            found.append(f">={start},<{end}" if end else f">={start}")
    return tuple(found)


def _search(numbers: Ids, engine: str, version: str, architecture: str, layers: int | None) -> Ids | None:
    if find_reading(engine, version).slots not in (None, len(numbers)):
        return None
    for ids in _candidates(numbers):
        if states_for(ids, engine, version, architecture, layers).states == numbers:
            return ids
    return None


def _candidates(numbers: Ids) -> Iterator[Ids]:
    """Lists worth trying, the most conventional spelling first."""
    for shift in (0, -1):
        plain = tuple(number + shift for number in numbers)
        yield plain
        for first in plain[1:]:
            yield (first, *(value for value in plain if value != first))


def _joinable(wiring: tuple[State, ...], where: str, layers: int | None) -> Ids:
    """The wiring as numbers, if any engine could join these states in this order at all."""
    retrain = "retrain on states that engines capture"
    numbers = tuple(state for state in wiring if isinstance(state, int))
    if len(numbers) < len(wiring):
        named = next(state for state in wiring if not isinstance(state, int))
        message = f"'{named}' is no input of a decoder layer, and engines capture nothing else"
        raise HsfError("not-expressible", where, message, retrain)
    if len(set(numbers)) < len(numbers):
        message = f"{show_wiring(wiring)} names a state twice, and engines capture each layer once"
        raise HsfError("not-expressible", where, message, retrain)
    ascending = tuple(sorted(numbers))
    if numbers != ascending:
        message = (
            f"{show_wiring(wiring)} is not ascending, and engines join states in ascending order whatever the order "
            f"of the ids, so they can only serve {show_wiring(ascending)}"
        )
        raise HsfError("not-expressible", where, message, "permute the column blocks of fc.weight, or retrain")
    if layers is not None and numbers and numbers[-1] > layers:
        message = f"state {numbers[-1]} does not exist: {layers} layers have the states 0 to {layers}"
        raise HsfError("not-expressible", where, message, "check the wiring and the number of layers")
    return numbers


def _reason(numbers: Ids, engine: str, version: str, architecture: str, layers: int | None) -> str:
    """Why no list of ids serves an ascending wiring."""
    rule, reading = find_rule(engine, version, architecture), find_reading(engine, version)
    if reading.ids_key is None:
        default = show_wiring(default_states(engine, version, architecture, layers))
        return f"this version never reads layer ids: it always serves {default}"
    if reading.slots not in (None, len(numbers)):
        return f"this version joins exactly {reading.slots} states, and {show_wiring(numbers)} has {len(numbers)}"
    if 0 in numbers and not rule.state_zero:
        return f"asking for {show_state(0)} crashes this version"
    if layers in numbers and not rule.last_state:
        return f"state {layers}, after the last layer, is never captured by this version"
    return f"no list of ids means {show_wiring(numbers)} under the rule '{rule.rule}'"


def _remedy(numbers: Ids, engine: str, architecture: str, layers: int | None) -> str:
    able = versions_that_serve(numbers, engine, architecture, layers)
    if able:
        return f"serve with {engine} {' or '.join(able)}; another order of the ids cannot help"
    return f"no version of {engine} looked at can: retrain on other states; another order of the ids cannot help"


def _starts(engine: str, architecture: str) -> tuple[str, ...]:
    """First versions of the ranges in which nothing that matters to a class changes, oldest first."""
    row = find_class(engine, ENGINES[engine].newest, architecture)
    readings = [reading.versions for reading in CONFIG_READINGS if reading.engine == engine]
    lows = {versions.split(",")[0].removeprefix(">=") for versions in (*readings, *(r.versions for r in rules_of(row)))}
    later = {low for low in lows if Version(low) > Version(row.since)}
    return tuple(sorted({row.since, *later}, key=Version))
