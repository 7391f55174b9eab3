"""From layer ids to the states that an engine serves. The inverse is in ``hsforensics.rules.inverse``."""

from __future__ import annotations

from dataclasses import dataclass

from hsforensics.results import Prediction
from hsforensics.rules.functions import DEFAULTS, RULES, Asked, Ids
from hsforensics.rules.lookup import EngineVersion, find_class, find_reading, find_rule
from hsforensics.rules.rows import ConfigReading, IdRule, Method
from hsforensics.states import State, Wiring, state_order

_BROKEN = {
    "fails": "the engine fails when it starts",
    "captures_nothing": "nothing is captured, and the engine fails at the first forward pass",
    "residual_left_out": (
        "what is served is the layer's output without the residual, no state of the target (sglang#39286, open)"
    ),
    "overwritten": (
        "the captured tensor shares memory that the layer overwrites, so what is served is no state of the target "
        "(sglang#39286)"
    ),
}
_NO_DEFAULT = {
    "refused": "this engine refuses to start without layer ids",
    "spread": "without ids this engine takes as many states as the drafter has layers, evenly spaced; write them out",
    "none": _BROKEN["captures_nothing"],
}


@dataclass(frozen=True)
class Serving:
    """What decides over layer ids: one engine version, one model class, and the rows that apply to them.

    Attributes:
        engine: Engine and version.
        architecture: The target's model class, wrapper or inner.
        layers: L of the target. ``None``: the top is not checked, and of a default only state 2 is known.
        method: Kind of drafter.
        rule: The row of the tables, or one that was read from the engine's own code.
        reading: Which config keys it reads.
        delegates_to: The class inside a wrapper whose rule applies.
    """

    engine: EngineVersion
    architecture: str
    layers: int | None
    method: Method
    rule: IdRule
    reading: ConfigReading
    delegates_to: str | None = None

    def __str__(self) -> str:
        return f"{self.engine}, {self.architecture}"


def find_serving(
    engine: EngineVersion,
    architecture: str,
    layers: int | None,
    method: Method = "eagle3",
    rule: IdRule | None = None,
) -> Serving:
    """The rows for an engine version and a class.

    Args:
        engine: Engine and version.
        architecture: The target's model class.
        layers: L of the target, if known.
        method: Kind of drafter.
        rule: Applies instead of the table's, when it was read from the engine itself.

    Raises:
        HsfError: ``rule-unknown``.
    """
    where = (engine.name, engine.version, architecture, method)
    reading = find_reading(*where)
    if rule is not None:
        return Serving(engine, architecture, layers, method, rule, reading)
    inner = find_class(*where).delegates_to
    return Serving(engine, architecture, layers, method, find_rule(*where), reading, inner)


def serve(serving: Serving, ids: Ids | None) -> Prediction:
    """What is served for layer ids, ``None`` when the engine finds none and takes its default.

    Engines capture in ascending layer order whatever the list's order, each layer once, and never outside the model.

    Returns:
        A prediction; its ``states`` are ``None`` where the engine fails or serves no state, and its ``note``
        says why.
    """
    rule, inner = serving.rule, serving.delegates_to
    states, trouble = apply_rule(rule, ids, serving.layers)
    notes = [f"{rule.source}; {rule.verified}", f"delegates to {inner}" if inner else "", trouble]
    note = "; ".join(text for text in notes if text)
    return Prediction(str(serving.engine), serving.architecture, ids, states, rule.rule, note, trouble)


def states_for(
    ids: Ids | None, engine: str, version: str, architecture: str, layers: int | None, method: Method = "eagle3"
) -> Prediction:
    """What an engine serves for these layer ids, by the tables; see ``serve``.

    Raises:
        HsfError: ``rule-unknown``.
    """
    return serve(find_serving(EngineVersion(engine, version), architecture, layers, method), ids)


def default_states(
    engine: str, version: str, architecture: str, layers: int | None, method: Method = "eagle3"
) -> Wiring | None:
    """The states that an engine serves when it finds no layer ids; see ``serve``."""
    return states_for(None, engine, version, architecture, layers, method).states


def apply_rule(rule: IdRule, ids: Ids | None, layers: int | None) -> tuple[Wiring | None, str]:
    """One row applied to ids: the states served, or ``None``, and what goes wrong on the way, in words."""
    if rule.rule in _BROKEN:
        return None, _BROKEN[rule.rule]
    asked = None if ids is None else RULES[rule.rule](ids, layers)
    return _default_states(rule, layers) if asked is None else _captured(asked, rule, layers)


def _default_states(rule: IdRule, layers: int | None) -> tuple[Wiring | None, str]:
    default = DEFAULTS[rule.default]
    if rule.default in _NO_DEFAULT:
        return None, _NO_DEFAULT[rule.default]
    if layers is not None:
        return _captured(default(layers), rule, layers)
    probes = (default(100), default(200))  # what does not move with L is known anyway
    known = tuple(low if low == high else None for low, high in zip(*probes, strict=True))
    return known, "the number of layers is not known, so the default is not either"


def _captured(asked: Asked, rule: IdRule, layers: int | None) -> tuple[Wiring | None, str]:
    """States asked for to states served, and what goes wrong on the way, in words."""
    if 0 in asked and not rule.state_zero:
        return None, "this version crashes when asked for state 0"
    if layers in asked and rule.last_state == "crashes":
        return None, f"this version crashes when it starts if asked for state {layers}, after the last layer"
    kept = tuple(sorted({state for state in asked if _is_captured(state, rule, layers)}, key=state_order))
    lost = len(asked) - len(kept)
    if not kept:
        return None, _BROKEN["captures_nothing"]
    if not lost:
        return kept, "" if layers is not None else "the number of layers is not known, so the top was not checked"
    trouble = f"only {len(kept)} of {len(asked)} ids are captured (doubled, or outside of the model)"
    return (None, trouble + ", and the engine fails") if rule.missing == "fails" else (kept, trouble)


def _is_captured(state: State, rule: IdRule, layers: int | None) -> bool:
    if isinstance(state, str):
        return True
    if layers is None or state < layers:
        return state >= 0
    return state == layers and rule.last_state == "captured"
