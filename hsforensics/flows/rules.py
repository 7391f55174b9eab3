"""``rules``: what layer ids mean to an engine, and which ids ask for given states."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hsforensics.errors import HsfError
from hsforensics.findings import fill_findings, finding
from hsforensics.flows.introspected import introspection_findings
from hsforensics.flows.known import engine_words, served_nothing
from hsforensics.flows.provenance import provenance
from hsforensics.results_rules import RuleAlternative, RulesResult
from hsforensics.rules.alternatives import other_ways, spellings, where_to_write
from hsforensics.rules.explain import explain_ids
from hsforensics.rules.forward import Serving, find_serving, serve
from hsforensics.rules.functions import MEANINGS, NO_STATE, Ids
from hsforensics.rules.introspect.read import Introspection, introspect
from hsforensics.rules.inverse import ids_to_write
from hsforensics.rules.live import how_known, versions_seen
from hsforensics.rules.lookup import caveats_for, find_class, has_rule, parse_engine
from hsforensics.rules.rows import Method, ModelClass, Verified
from hsforensics.states import Finding, State, Wiring


def rules(
    *,
    engine: str | None,
    architecture: str | None = None,
    layers: int | None = None,
    target: Path | None = None,
    ids: Ids | None = None,
    states: tuple[State, ...] | None = None,
    method: Method = "eagle3",
    place: str | None = None,
) -> RulesResult:
    """Answer one question about layer ids.

    Args:
        engine: ``NAME==VERSION``; may be left out with ``place``, whose own version then counts.
        architecture: The target's model class; the target's own by default.
        layers: L of the target; the target's own by default. Without it the top is not checked.
        target: The target's directory, for its class and L.
        ids: Which states do these serve? Without ``ids`` and ``states``: which does the default serve?
        states: Which ids serve these?
        method: Kind of drafter.
        place: Code of an SGLang to read the rule from, see ``hsforensics.rules.introspect.read.introspect``.

    Raises:
        HsfError: ``usage``, ``rule-unknown``, ``engine-unreadable``, or the target is unreadable.
    """
    if ids is not None and states is not None:
        raise HsfError("usage", "--ids / --states", "one question at a time, got both", "give one of them")
    name, depth = _model(architecture, layers, target, engine, method)
    seen = introspect(place, name, method, parse_engine(engine) if engine else None) if place else None
    serving = _serving(engine, seen, name, depth, method)
    answer = _answer_ids(serving, ids) if states is None else _answer_states(serving, states)
    found = [*_failure(serving, answer), *_findings(serving, seen)]
    return _result(serving, seen, answer, found, target)


def _model(
    architecture: str | None, layers: int | None, target: Path | None, engine: str | None, method: Method
) -> tuple[str, int | None]:
    """The model class whose rule applies and L, from the options or from the target."""
    if target is None:
        if architecture is None:
            message = "the target's model class is needed, since ids mean different things in each"
            raise HsfError("usage", "--architecture", message, "add --architecture CLASS, or --target MODEL")
        return architecture, layers
    from hsforensics.models.target import load_target

    model = load_target(target)
    engine_name = parse_engine(engine).name if engine else "sglang"
    classes = (model.wrapper_class, model.inner_class)
    known = (name for name in classes if has_rule(engine_name, name, method))
    return architecture or next(known, classes[0]), layers or model.layers


def _serving(
    engine: str | None, seen: Introspection | None, architecture: str, layers: int | None, method: Method
) -> Serving:
    if seen is not None:
        return find_serving(seen.engine, architecture, layers, method, seen.rule)
    if engine is None:
        raise HsfError("usage", "--engine", "an engine and its version are needed", "add --engine sglang==0.5.16")
    return find_serving(parse_engine(engine), architecture, layers, method)


@dataclass(frozen=True)
class _Answer:
    """The part of a result that differs from question to question."""

    question: Literal["ids", "states"]
    ids: Ids | None
    states: Wiring | None
    reason: str
    expressible: bool | None = None
    alternatives: tuple[RuleAlternative, ...] = ()


def _answer_ids(serving: Serving, ids: Ids | None) -> _Answer:
    predicted = serve(serving, ids)
    return _Answer("ids", ids, predicted.states, predicted.note)


def _answer_states(serving: Serving, states: tuple[State, ...]) -> _Answer:
    try:
        ids = ids_to_write(serving, states)
    except HsfError as error:
        ways = tuple(other_ways(serving, states))
        return _Answer("states", None, states, f"not expressible here: {error.message}", False, ways)
    reason = explain_ids(serving, ids, states)
    return _Answer("states", ids, states, reason, True, tuple(spellings(serving, states, ids)))


def _result(
    serving: Serving, seen: Introspection | None, answer: _Answer, found: list[Finding], target: Path | None
) -> RulesResult:
    engine = serving.engine
    return RulesResult(
        engine=str(engine),
        architecture=serving.architecture,
        method=serving.method,
        layers=serving.layers,
        question=answer.question,
        ids=answer.ids,
        states=answer.states,
        expressible=answer.expressible,
        key=where_to_write(serving),
        rule=serving.rule.rule,
        meaning=MEANINGS[serving.rule.rule],
        source=serving.rule.source,
        verified=_known(serving, seen),
        seen_live=_seen_live(serving, seen),
        reason=answer.reason,
        alternatives=answer.alternatives,
        findings=fill_findings(found, engine_words(str(engine), serving.architecture, serving.layers)),
        provenance=provenance(
            target_path=str(target) if target else None,
            layers=serving.layers,
            engine=engine.name,
            engine_version=engine.version,
        ),
    )


def _known(serving: Serving, seen: Introspection | None) -> Verified:
    """How the rule is known for this class: better than the row says, if this very version was seen to follow it."""
    if seen is not None:
        return serving.rule.verified
    return how_known(_class(serving), serving.rule, serving.engine.version)


def _seen_live(serving: Serving, seen: Introspection | None) -> tuple[str, ...]:
    """Versions of the same rule that were run with this class."""
    return versions_seen(_class(serving), serving.rule) if seen is None else ()


def _class(serving: Serving) -> ModelClass:
    return find_class(serving.engine.name, serving.engine.version, serving.architecture, serving.method)


def _failure(serving: Serving, answer: _Answer) -> list[Finding]:
    """The engine fails with what was asked, serves no state at all, or fewer than were asked for."""
    if answer.states is not None:
        lost = 0 if answer.ids is None else len(answer.ids) - len(answer.states)
        message = f"only {len(answer.states)} of {len(answer.ids or ())} ids are captured"
        return [finding("ids-lost", str(serving), message, answer.reason, confidence="predicted")] if lost > 0 else []
    with_ids = "without ids" if answer.ids is None else f"with ids {list(answer.ids)}"
    does = "serves no state of the target" if serving.rule.rule in NO_STATE else "fails"
    message = f"{serving.engine.title} {does} {with_ids}"
    return [served_nothing("ids-fail", serving.rule.rule, str(serving), message, answer.reason)]


def _findings(serving: Serving, seen: Introspection | None) -> list[Finding]:
    """Known traps, and what the engine's own code says against the tables."""
    where = str(serving)
    found = introspection_findings(seen, serving)
    if seen is not None and seen.tables is None:
        return [*found, *(finding("rule-caveat", where, c.text, seen.origin) for c in seen.rule.caveats)]
    engine = serving.engine
    caveats = caveats_for(
        *(engine.name, engine.version, serving.architecture),
        at_default=False,
        method=serving.method,
        by_hand=True,
        introspected=seen is not None,
    )
    found += [finding("rule-caveat", where, c.text, serving.rule.source, confidence="predicted") for c in caveats]
    return found
