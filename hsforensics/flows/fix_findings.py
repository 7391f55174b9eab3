"""What ``fix-config`` has to say beside the edit itself."""

from __future__ import annotations

from collections.abc import Mapping

from hsforensics.drafter.config import DrafterConfig, ids_read_by, predict_with
from hsforensics.drafter.keys import ids_keys, read_key
from hsforensics.findings import fill_findings, finding
from hsforensics.flows.fix_inputs import FixEngine, FixInputs, measured_here, measured_wiring
from hsforensics.flows.introspected import introspection_findings
from hsforensics.flows.key_conflicts import conflict_finding, key_conflicts, layout_findings
from hsforensics.flows.known import to_measure
from hsforensics.flows.served_config import other_config
from hsforensics.results import CompareResult, Prediction
from hsforensics.rules.forward import serve
from hsforensics.rules.lookup import caveats_for
from hsforensics.states import Finding, Severity, show_wiring

_ORDER = {"error": 0, "warning": 1, "info": 2}


def fix_findings(
    config: DrafterConfig,
    fixed: DrafterConfig,
    inputs: FixInputs,
    report: CompareResult | None,
    words: Mapping[str, str],
    *,
    written: bool = False,
) -> tuple[Finding, ...]:
    """All findings of one run, most severe first.

    Args:
        config: As read, before any edit, and
        fixed: with the edits; the same when there are none.
        inputs: What the edit was computed from.
        report: The compare report, if the wiring came from one.
        words: What commands may name, see ``hsforensics.findings.fill``.
        written: Whether the edit is done.
    """
    edited = config.raw != fixed.raw
    found = [*_conflicts(config, inputs)]
    for engine in inputs.engines:
        before, after = predict_with(engine.serving, config), predict_with(engine.serving, fixed)
        found += [
            *_ids_absent(config, engine, inputs, before, written=written),
            *_disagreement(config, engine, inputs, report, before, kept=not edited),
            *(_disagreement(fixed, engine, inputs, report, after, kept=True) if edited else []),
            *_other_config(config, engine, report, before),
            *introspection_findings(engine.seen, engine.serving),
            *_caveats(engine, inputs, after),
            *_wrapper(engine),
            *_certainty(fixed, engine, inputs, report, after, edited=edited),
        ]
    return fill_findings(sorted(dict.fromkeys(found), key=lambda item: _ORDER[item.severity]), words)


def _ids_absent(
    config: DrafterConfig, engine: FixEngine, inputs: FixInputs, before: Prediction, *, written: bool
) -> list[Finding]:
    """The config as read holds no ids for this engine: harmless where its default is right, or once it holds them."""
    read = ids_read_by(config, engine.serving.reading)
    if read.ids is not None or read.off or read.fails or engine.serving.reading.argument:
        return []
    right = before.states == inputs.wiring
    message = f"{engine.engine.title} finds no layer ids and takes its default layers, {show_wiring(before.states)}"
    remedy = "Nothing to do; write the ids anyway before you change the engine." if right else None
    if written and not right:
        message, remedy = f"with the old config, {message}", "Nothing more to do: the ids are written."
    return [
        finding(
            "ids-absent",
            str(config.path),
            f"{message}, which is what the drafter was trained on" if right else message,
            read.detail,
            severity="info" if right or written else None,
            remedy=remedy,
            confidence="predicted",
        )
    ]


def _disagreement(
    config: DrafterConfig,
    engine: FixEngine,
    inputs: FixInputs,
    report: CompareResult | None,
    predicted: Prediction,
    *,
    kept: bool,
) -> list[Finding]:
    """The engine was measured with this very config, and served something that the rule denies.

    Args:
        config: As it is, or as edited.
        engine: That was measured.
        inputs: What the edit is computed from.
        report: Holds the measurement.
        predicted: What the rule says of this config.
        kept: Whether this is the config that will be served, so that a wrong wiring is an error.
    """
    measured = measured_wiring(config, engine.engine, report)
    if measured is None or report is None or measured == predicted.states:
        return []
    right = measured == inputs.wiring
    says = f"by its id rule it would serve {show_wiring(predicted.states)}"
    message = f"{engine.engine.title} was measured to serve {show_wiring(measured)} with this config, though {says}"
    evidence = f"{_capture(report)}; rule '{predicted.rule}' for {predicted.architecture}"
    remedy = "Keep the config: the measurement is right." if right else "Find out how this engine differs: a patch?"
    severity: Severity = "error" if kept and not right else "warning"
    return [finding("rule-disagrees", str(config.path), message, evidence, severity=severity, remedy=remedy)]


def _other_config(
    config: DrafterConfig, engine: FixEngine, report: CompareResult | None, before: Prediction
) -> list[Finding]:
    """A report of this very engine that measured another config, or may have."""
    if report is None or not measured_here(engine.engine, report):
        return []
    return other_config(config, report.provenance, report.served_wiring, before.states)


def _caveats(engine: FixEngine, inputs: FixInputs, after: Prediction) -> list[Finding]:
    serving = engine.serving
    if engine.seen is not None and engine.seen.tables is None:
        caveats = serving.rule.caveats
    else:
        caveats = caveats_for(
            *(engine.engine.name, engine.engine.version, serving.architecture),
            at_default=serve(serving, None).states == inputs.wiring,
            method=serving.method,
            introspected=engine.seen is not None,
        )
    title = engine.engine.title
    return [
        finding("rule-caveat", str(serving), f"{title}: {item.text}", after.note, confidence="predicted")
        for item in caveats
    ]


def _wrapper(engine: FixEngine) -> list[Finding]:
    if engine.wrapper is None:
        return []
    message = f"no rule is known for {engine.wrapper}; the rule of {engine.architecture} inside it was taken"
    evidence = "a wrapper must hand layer ids on to the model inside it, and not every one does"
    return [finding("rule-caveat", engine.wrapper, message, evidence, confidence="predicted")]


def _conflicts(config: DrafterConfig, inputs: FixInputs) -> list[Finding]:
    """Other keys with ids, which these engines do not read first: left alone, but told, with who reads them."""
    read = {read_key(config, engine.serving.reading) for engine in inputs.engines}
    unread = [conflict_finding(config, key, read) for key in ids_keys(config) if key not in read]
    first = inputs.engines[0].serving
    return [*unread, *layout_findings(config, read), *key_conflicts(config, first.architecture, inputs.layers)]


def _certainty(
    fixed: DrafterConfig,
    engine: FixEngine,
    inputs: FixInputs,
    report: CompareResult | None,
    after: Prediction,
    *,
    edited: bool,
) -> list[Finding]:
    """Why the config that will be served is right: it was measured itself, or the rule says so."""
    where, title = str(engine.serving), engine.engine.title
    measured = measured_wiring(fixed, engine.engine, report)
    if measured is not None and report is not None:
        which = "the edited config, which was captured before" if edited else "this very config"
        message = f"{title} was measured to serve the trained wiring {show_wiring(measured)} with {which}"
        return [finding("wiring-right", where, message, _capture(report))] if measured == inputs.wiring else []
    if not edited and after.states != inputs.wiring:
        return []
    if not edited:
        message = f"by its id rule, {title} already serves the trained wiring {show_wiring(after.states)}"
        live = to_measure(str(engine.engine))
        return [finding("config-serves-trained", where, message, after.note, confidence="predicted", commands=live)]
    message = f"{title} will serve {show_wiring(after.states)} by its id rule; predicted, not measured"
    evidence = f"{_captured_on(engine, report)}; {after.note}"  # what to type for it is the result's own next step
    return [finding("predicted-not-measured", where, message, evidence, confidence="predicted", commands=())]


def _capture(report: CompareResult) -> str:
    origin = report.provenance
    return f"capture {origin.capture_path}, served with config sha256 {(origin.served_config_sha256 or 'unknown')[:12]}"


def _captured_on(engine: FixEngine, report: CompareResult | None) -> str:
    if report is None:
        return "the wiring was named by hand"
    if measured_here(engine.engine, report) and report.served_wiring is not None:
        return f"the report measured {engine.engine.title} with another config, or does not say with which"
    origin = report.provenance
    return f"the report's states come from {' '.join(filter(None, (origin.engine, origin.engine_version))) or 'files'}"
