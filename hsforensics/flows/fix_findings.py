"""What ``fix-config`` has to say beside the edit itself."""

from __future__ import annotations

from hsforensics.drafter.config import DrafterConfig, ids_read_by
from hsforensics.findings import finding
from hsforensics.flows.fix_inputs import FixInputs, measured_here, measured_wiring
from hsforensics.results import CompareResult, Prediction
from hsforensics.rules.forward import default_states
from hsforensics.rules.lookup import caveats_for, find_reading
from hsforensics.rules.tables import TOP_LEVEL_IDS
from hsforensics.states import Finding, Severity, show_wiring

_ORDER = {"error": 0, "warning": 1, "info": 2}


def fix_findings(
    config: DrafterConfig,
    inputs: FixInputs,
    report: CompareResult | None,
    before: Prediction,
    after: Prediction,
    *,
    edited: bool,
) -> tuple[Finding, ...]:
    """All findings of one run, most severe first.

    Args:
        config: As read, before any edit.
        inputs: What the edit was computed from.
        report: The compare report, if the wiring came from one.
        before: What the config makes the engine serve, and
        after: with the edits.
        edited: Whether there are edits.
    """
    found = [
        *_ids_absent(config, inputs, before),
        *_disagreement(config, inputs, report, before, edited=edited),
        *_caveats(inputs, after),
        *_wrapper(inputs),
        *_unread_ids(config, inputs),
        *_certainty(inputs, report, after, edited=edited),
    ]
    return tuple(sorted(found, key=lambda item: _ORDER[item.severity]))


def _ids_absent(config: DrafterConfig, inputs: FixInputs, before: Prediction) -> list[Finding]:
    read = ids_read_by(config, find_reading(inputs.engine.name, inputs.engine.version))
    if read.ids is not None or read.off or read.fails:
        return []
    right = before.states == inputs.wiring
    message = f"{inputs.engine.title} finds no layer ids and takes its default layers, {show_wiring(before.states)}"
    return [
        finding(
            "ids-absent",
            str(config.path),
            f"{message}, which is what the drafter was trained on" if right else message,
            read.detail,
            severity="info" if right else None,
            remedy="Nothing to do; write the ids anyway before you change the engine." if right else None,
            confidence="predicted",
        )
    ]


def _disagreement(
    config: DrafterConfig, inputs: FixInputs, report: CompareResult | None, before: Prediction, *, edited: bool
) -> list[Finding]:
    """The engine was measured with this very config, and served something that the rule denies."""
    measured = measured_wiring(config, inputs, report)
    if measured is None or report is None or measured == before.states:
        return []
    right = measured == inputs.wiring
    says = f"by its id rule it would serve {show_wiring(before.states)}"
    message = f"{inputs.engine.title} was measured to serve {show_wiring(measured)} with this config, though {says}"
    evidence = f"capture {report.provenance.capture_path}; rule '{before.rule}' for {before.architecture}"
    remedy = "Keep the config: the measurement is right." if right else "Find out how this engine differs: a patch?"
    severity: Severity = "warning" if right or edited else "error"
    return [finding("rule-disagrees", str(config.path), message, evidence, severity=severity, remedy=remedy)]


def _caveats(inputs: FixInputs, after: Prediction) -> list[Finding]:
    engine, version = inputs.engine.name, inputs.engine.version
    default = default_states(engine, version, inputs.architecture, inputs.layers)
    caveats = caveats_for(engine, version, inputs.architecture, at_default=default == inputs.wiring)
    where = f"{inputs.engine}, {inputs.architecture}"
    return [
        finding("rule-caveat", where, f"{inputs.engine.title}: {item.text}", after.note, confidence="predicted")
        for item in caveats
    ]


def _wrapper(inputs: FixInputs) -> list[Finding]:
    if inputs.wrapper is None:
        return []
    message = f"no rule is known for {inputs.wrapper}; the rule of {inputs.architecture} inside it was taken"
    evidence = "a wrapper must hand layer ids on to the model inside it, and not every one does"
    return [finding("rule-caveat", inputs.wrapper, message, evidence, confidence="predicted")]


def _unread_ids(config: DrafterConfig, inputs: FixInputs) -> list[Finding]:
    """Ids at the top level, which other engines read and this one does not: left alone, but told."""
    reading = find_reading(inputs.engine.name, inputs.engine.version)
    if config.top_level_ids is None or reading.ids_key == TOP_LEVEL_IDS:
        return []
    message = f"the top-level ids {list(config.top_level_ids)} are left alone: {inputs.engine.title} does not read them"
    evidence = f"it reads {reading.ids_key or 'no ids at all'}"
    remedy = "Keep them for engines that do read them (vLLM does), and check what they mean there."
    return [
        finding("rule-caveat", TOP_LEVEL_IDS, message, evidence, severity="info", remedy=remedy, confidence="predicted")
    ]


def _certainty(inputs: FixInputs, report: CompareResult | None, after: Prediction, *, edited: bool) -> list[Finding]:
    where = f"{inputs.engine}, {inputs.architecture}"
    if not edited and after.states != inputs.wiring:
        return []
    if not edited:
        message = f"by its id rule, {inputs.engine.title} already serves the trained wiring {show_wiring(after.states)}"
        return [finding("config-serves-trained", where, message, after.note, confidence="predicted")]
    if measured_here(inputs, report):
        return []
    captured = _captured_on(report)
    message = f"{inputs.engine.title} will serve {show_wiring(after.states)} by its id rule; predicted, not measured"
    return [finding("predicted-not-measured", where, message, f"{captured}; {after.note}", confidence="predicted")]


def _captured_on(report: CompareResult | None) -> str:
    if report is None:
        return "the wiring was named by hand"
    origin = report.provenance
    return f"the report's states come from {' '.join(filter(None, (origin.engine, origin.engine_version))) or 'files'}"
