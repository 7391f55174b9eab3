"""From layer ids to the states that an engine serves. The inverse is in ``hsforensics.rules.inverse``."""

from __future__ import annotations

from hsforensics.results import Prediction
from hsforensics.rules.functions import DEFAULTS, RULES, Ids
from hsforensics.rules.lookup import find_class, find_rule
from hsforensics.rules.tables import IdRule
from hsforensics.states import Wiring


def states_for(ids: Ids | None, engine: str, version: str, architecture: str, layers: int | None) -> Prediction:
    """What an engine serves for these layer ids.

    Engines capture in ascending layer order whatever the list's order, each layer once, and never outside the model.

    Args:
        ids: Layer ids that the engine reads; ``None`` when it finds none and takes its default.
        engine: Name, such as ``sglang``.
        version: PEP 440 version of the engine.
        architecture: The target's model class, wrapper or inner.
        layers: L of the target. ``None``: the top is not checked, and of a default only state 2 is known.

    Returns:
        A prediction; its ``states`` are ``None`` where the engine fails, and its ``note`` says why.

    Raises:
        HsfError: ``rule-unknown``.
    """
    rule = find_rule(engine, version, architecture)
    indices = None if ids is None else RULES[rule.rule](ids)
    if indices is None:
        states, trouble = _default_states(rule, layers)
    else:
        states, trouble = _captured(indices, rule, layers)
    inner = find_class(engine, version, architecture).delegates_to
    notes = [f"{rule.source}; {rule.verified}", f"delegates to {inner}" if inner else "", trouble]
    note = "; ".join(text for text in notes if text)
    return Prediction(f"{engine}=={version}", architecture, ids, states, rule.rule, note)


def default_states(engine: str, version: str, architecture: str, layers: int | None) -> Wiring | None:
    """The states that an engine serves when it finds no layer ids; see ``states_for``."""
    return states_for(None, engine, version, architecture, layers).states


def _default_states(rule: IdRule, layers: int | None) -> tuple[Wiring | None, str]:
    if layers is not None:
        return _captured(DEFAULTS[rule.default](layers), rule, layers)
    probes = (DEFAULTS[rule.default](100), DEFAULTS[rule.default](200))  # what does not move with L is known anyway
    known = tuple(low if low == high else None for low, high in zip(*probes, strict=True))
    return known, "the number of layers is not known, so the default is not either"


def _captured(indices: Ids, rule: IdRule, layers: int | None) -> tuple[Wiring | None, str]:
    """Capture indices to served states, and what goes wrong on the way, in words."""
    if 0 in indices and not rule.state_zero:
        return None, "this version crashes when asked for state 0"
    kept = tuple(sorted({index for index in indices if _is_captured(index, rule, layers)}))
    lost = len(indices) - len(kept)
    if not kept:
        return None, "nothing is captured, and the engine fails at the first forward pass"
    if not lost:
        return kept, "" if layers is not None else "the number of layers is not known, so the top was not checked"
    trouble = f"only {len(kept)} of {len(indices)} ids are captured (doubled, or outside of the model)"
    return (None, trouble + ", and the engine fails") if rule.missing == "fails" else (kept, trouble)


def _is_captured(index: int, rule: IdRule, layers: int | None) -> bool:
    if layers is None or index < layers:
        return index >= 0
    return index == layers and rule.last_state
