"""Why a state is written as a certain id: one sentence for people, from the rule's name."""

from __future__ import annotations

from hsforensics.rules.forward import states_for
from hsforensics.rules.functions import Ids
from hsforensics.rules.lookup import EngineVersion, find_rule
from hsforensics.states import show_wiring

_SENTENCES = {
    "plus_one": "{title} captures the input of layer id + 1 for {architecture}, so {pairs}",
    "plus_one_if_first_is_one": (
        "{title} takes ids as state numbers for {architecture}, and adds 1 to each only if the list starts with 1, "
        "so {pairs}"
    ),
    "ignores_ids": "{title} never reads layer ids for {architecture}",
}


def explain_ids(ids: Ids, wiring: Ids, engine: EngineVersion, architecture: str, layers: int | None) -> str:
    """Say in plain words why ``ids`` serve ``wiring``.

    Args:
        ids: As ``ids_for`` gave them.
        wiring: The ascending states that they serve.
        engine: Engine and version.
        architecture: The target's model class.
        layers: L of the target, if known.

    Raises:
        HsfError: ``rule-unknown``.
    """
    rule = find_rule(engine.name, engine.version, architecture).rule
    written = zip(wiring, sorted(ids), strict=True)
    pairs = ", ".join(f"state {state} is written {value}" for state, value in written)
    sentence = _SENTENCES[rule].format(title=engine.title, architecture=architecture, pairs=pairs)
    if ids != tuple(sorted(ids)):
        return f"{sentence}; {min(ids)} must not stand first, and the engine joins in ascending order anyway"
    other = tuple(state - 1 for state in wiring)
    if other != ids and states_for(other, engine.name, engine.version, architecture, layers).states == wiring:
        return f"{sentence} ({show_wiring(other)} would serve the same)"
    return sentence
