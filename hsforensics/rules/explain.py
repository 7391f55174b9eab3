"""Why a state is written as a certain id: one sentence for people, from the rule's name."""

from __future__ import annotations

from hsforensics.results import Prediction
from hsforensics.rules.forward import Serving, apply_rule
from hsforensics.rules.functions import NO_STATE, Ids
from hsforensics.states import POSTNORM, State, show_wiring

_SENTENCES = {
    "plus_one": "{title} captures the input of layer id + 1 for {architecture}, so {pairs}",
    "plus_one_if_first_is_one": (
        "{title} takes ids as state numbers for {architecture}, and adds 1 to each only if the list starts with 1, "
        "so {pairs}"
    ),
    "as_is": "{title} takes ids as state numbers for {architecture}, so {pairs}",
    "as_is_if_last_is_named": (
        "{title} captures the input of layer id + 1 for {architecture}, or takes ids as state numbers if the list "
        "names L itself, so {pairs}"
    ),
    "plus_one_minus_one_is_postnorm": "{title} captures the output of layer id, and postnorm for -1, so {pairs}",
    "captures_nothing": "{title} captures nothing for {architecture}",
    "fails": "{title} fails for {architecture}",
    "residual_left_out": "{title} serves no state of the target for {architecture}",
    "overwritten": "{title} serves no state of the target for {architecture}",
    "ignores_ids": "{title} never reads layer ids for {architecture}",
}


def explain_ids(serving: Serving, ids: Ids, wiring: tuple[State, ...]) -> str:
    """Say in plain words why ``ids`` serve ``wiring``.

    Args:
        serving: What decides over ids.
        ids: As ``ids_to_write`` gave them.
        wiring: The ascending states that they serve.
    """
    rule, engine, architecture, layers = serving.rule, serving.engine, serving.architecture, serving.layers
    pairs = ", ".join(f"{_named(state)} is written {value}" for state, value in _pairs(ids, wiring))
    sentence = _SENTENCES[rule.rule].format(title=engine.title, architecture=architecture, pairs=pairs)
    if ids != tuple(sorted(ids)) and POSTNORM not in wiring:
        return f"{sentence}; {min(ids)} must not stand first, and the engine joins in ascending order anyway"
    other = tuple(state - 1 for state in wiring if isinstance(state, int))
    if other != ids and apply_rule(rule, other, layers)[0] == wiring:
        return f"{sentence} ({show_wiring(other)} would serve the same)"
    return sentence


def _pairs(ids: Ids, wiring: tuple[State, ...]) -> zip[tuple[State, int]]:
    """States with their ids: both ascend, except that postnorm, the last state, is written -1."""
    ascending = sorted(ids)
    if POSTNORM in wiring:
        ascending = [*ascending[1:], ascending[0]]
    return zip(wiring, ascending, strict=True)


def _named(state: State) -> str:
    return f"state {state}" if isinstance(state, int) else state


def what_is_served(prediction: Prediction) -> str:
    """What a prediction says that an engine does: the states that it serves, or none of them, and why."""
    if prediction.states is not None:
        return f"serves {show_wiring(prediction.states)}"
    does = "serves no state of the target" if prediction.rule in NO_STATE else "fails"
    return f"{does} ({prediction.trouble})" if prediction.trouble else does


def what_happens(rule: str) -> str:
    """What an engine does, by its rule's name, when a prediction has no states; a verb phrase without its subject."""
    return "serve no state of the target" if rule in NO_STATE else "fail: it would serve nothing"
