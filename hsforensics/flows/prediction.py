"""What a drafter's config would make an engine serve: the id rule's word, marked as a prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hsforensics.drafter.config import DrafterConfig, predict_with, read_drafter_config
from hsforensics.drafter.keys import method_of
from hsforensics.errors import HsfError
from hsforensics.findings import fill_findings, finding
from hsforensics.flows.introspected import introspection_findings
from hsforensics.flows.key_conflicts import key_conflicts
from hsforensics.flows.known import engine_words, served_nothing, to_measure
from hsforensics.flows.served_config import measures_config, other_config
from hsforensics.results import Prediction, Provenance
from hsforensics.rules.explain import what_happens
from hsforensics.rules.forward import Serving, find_serving
from hsforensics.rules.introspect.read import Introspection, introspect
from hsforensics.rules.lookup import EngineVersion, known_engines, newer_caveats, parse_engine
from hsforensics.states import Finding, Wiring, show_wiring


@dataclass(frozen=True)
class PredictionWish:
    """What to predict for; every part may be missing.

    Attributes:
        engine: ``name==version``; by default the engine of the capture, if it is one that serves.
        architecture: Model class; by default the target's wrapper class, then its inner class.
        place: Code of an SGLang to read the id rule from.
    """

    engine: str | None = None
    architecture: str | None = None
    place: str | None = None


def predict_serving(
    drafter: Path, origin: Provenance, trained: Wiring | None, served: Wiring | None, wish: PredictionWish
) -> tuple[Prediction | None, list[Finding]]:
    """Predict what a drafter's config makes an engine serve, and say how that fits what was measured.

    Args:
        drafter: The drafter's directory.
        origin: Says which target and which engine the evidence comes from.
        trained: The trained wiring as measured.
        served: The served wiring as measured, by ``origin``'s engine; ``None`` when nothing was.
        wish: What to predict for.

    Returns:
        The prediction, or ``None`` when no engine is known to predict for; and findings.

    Raises:
        HsfError: The drafter or the engine's code is unreadable, or the wish is no engine.
    """
    version = parse_engine(wish.engine) if wish.engine else _captured_engine(origin)
    if version is None:
        return None, []
    names = [wish.architecture] if wish.architecture else [origin.target_wrapper, origin.target_inner]
    config = read_drafter_config(drafter)
    try:
        serving, seen = _first_known(config, version, [name for name in names if name], origin.layers, wish.place)
    except HsfError as error:
        if error.code != "rule-unknown":
            raise
        note = finding("rule-unknown", error.where, error.message, "id rules", remedy=error.remedy)
        return None, [note]
    predicted = predict_with(serving, config)
    measured = served if _captured_engine(origin) == version else None
    other = other_config(config, origin, measured, predicted.states)
    judged = _judge(predicted, trained, None if other else measured, measures_config(config, origin))
    judged = [*fill_findings(judged, engine_words(predicted.engine, predicted.architecture, origin.layers, trained))]
    conflicts = key_conflicts(config, predicted.architecture, origin.layers)
    newer = [] if seen is not None else _newer(serving, predicted.note)
    return predicted, [*judged, *other, *introspection_findings(seen, serving), *newer, *conflicts]


def _newer(serving: Serving, note: str) -> list[Finding]:
    """The rule of a version that nobody has looked at yet is a guess."""
    engine = serving.engine
    caveats = newer_caveats(engine.name, engine.version, serving.architecture, serving.method)
    told = (f"{engine.title}: {item.text}" for item in caveats)
    return [finding("rule-caveat", str(serving), text, note, confidence="predicted") for text in told]


def nothing_predicted(given: Mapping[str, str | None]) -> list[Finding]:
    """The finding that options ask for a prediction although no drafter was given; none without such options."""
    named = [f"{option} {value}" for option, value in given.items() if value is not None]
    if not named:
        return []
    message = "nothing is predicted: what an engine serves follows from a drafter's config, and none was given"
    return [finding("not-predicted", ", ".join(named), message, "no --draft")]


def _captured_engine(origin: Provenance) -> EngineVersion | None:
    """The capture's engine, if it is one that serves drafters."""
    if origin.engine in known_engines() and origin.engine_version:
        return parse_engine(f"{origin.engine}=={origin.engine_version}")
    return None


def _first_known(
    config: DrafterConfig, version: EngineVersion, classes: list[str], layers: int | None, place: str | None
) -> tuple[Serving, Introspection | None]:
    """The rows for the first class that has a rule."""
    refusal = HsfError(
        "rule-unknown", str(version), "the target's model class is not known", "add --architecture CLASS"
    )
    method = method_of(config)
    for name in classes:
        try:
            seen = introspect(place, name, method, version) if place else None
            return find_serving(version, name, layers, method, seen.rule if seen else None), seen
        except HsfError as error:
            if error.code != "rule-unknown":
                raise
            refusal = error
    raise refusal


def _judge(predicted: Prediction, trained: Wiring | None, served: Wiring | None, same_config: bool) -> list[Finding]:
    """What a prediction adds to ``served``, measured with this config; ``None`` where nothing is known to be."""
    where, states = f"config.json, {predicted.engine}", show_wiring(predicted.states)
    evidence = f"predicted {states}, trained {show_wiring(trained)}; {predicted.note}"
    found: list[Finding] = []
    if predicted.ids is None and predicted.states is not None:
        message = f"the engine finds no layer ids and serves its default {states}"
        found.append(finding("ids-absent", where, message, predicted.note, severity="warning", confidence="predicted"))
    if served is not None:
        if same_config and None not in served and served != predicted.states:
            message = f"the rule predicts {states}, but {show_wiring(served)} was measured; the measurement counts"
            found.append(finding("rule-disagrees", where, message, predicted.note))
        return found
    if predicted.states is None:
        message = f"this config makes {predicted.engine} {what_happens(predicted.rule)}"
        found.append(served_nothing("config-serves-other", predicted.rule, where, message, evidence))
    elif trained is not None and None not in trained:
        same = trained == predicted.states
        code, verb = ("config-serves-trained", "the trained") if same else ("config-serves-other", "other")
        message = f"by the id rule, this config makes {predicted.engine} serve {verb} states: {states}"
        commands = to_measure(predicted.engine) if same else None
        found.append(finding(code, where, message, evidence, confidence="predicted", commands=commands))
    return found
