"""``contract verify``: does what will be served, or what was captured, keep a drafter's contract?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from hsforensics.capture.store import Capture, open_capture
from hsforensics.drafter.config import DrafterConfig, predict_with, read_drafter_config
from hsforensics.drafter.contract import Contract, contract_path, read_contract
from hsforensics.drafter.contract_values import SAME, SlotDistance, compare_with, why_no_tokens
from hsforensics.errors import HsfError
from hsforensics.finding_kinds import MEASURE, REWRITE
from hsforensics.findings import fill_findings, finding
from hsforensics.flows.contract import drafter_flags
from hsforensics.flows.drafter_side import DrafterSide, read_drafter_side
from hsforensics.flows.known import engine_words, known_words, to_measure
from hsforensics.flows.provenance import provenance
from hsforensics.flows.recognise import CONTRACT_VERIFY_CALL, recognising
from hsforensics.flows.served_config import measures_config, not_measured
from hsforensics.models.target import load_target
from hsforensics.results import Prediction, Provenance
from hsforensics.results_contract import ContractResult, ContractSlot
from hsforensics.rules.explain import what_happens
from hsforensics.rules.flags import ignored_flags
from hsforensics.rules.forward import Serving, find_serving
from hsforensics.rules.lookup import caveats_for, has_rule, parse_engine
from hsforensics.states import Finding, show_state, show_wiring

_AGAIN = "hsforensics contract verify DRAFTER LIVE"
_ORDER = {"error": 0, "warning": 1, "info": 2}


@recognising(CONTRACT_VERIFY_CALL)
def verify_contract(
    drafter: str | Path,
    *,
    engines: str | Sequence[str] = (),
    architecture: str | None = None,
    target: str | Path | None = None,
    capture: str | Path | None = None,
) -> ContractResult:
    """Check a drafter against its contract, by rule for engines, and by values for a capture.

    Args:
        drafter: The drafter's directory.
        engines: ``NAME==VERSION`` of each engine that will serve it.
        architecture: The target's model class; the contract's own by default.
        target: The target's directory, to check its identity.
        capture: A capture of the sequences that the contract keeps values of.

    Raises:
        HsfError: ``contract-unreadable``, ``usage``, ``rule-unknown``, or an input is unreadable.
    """
    drafter, engines = Path(drafter), (engines,) if isinstance(engines, str) else engines
    target, capture = Path(target) if target else None, Path(capture) if capture else None
    config, path = read_drafter_config(drafter), contract_path(drafter)
    contract = read_contract(path)
    servings = tuple(_serving(text, architecture, contract) for text in engines)
    predicted = tuple(predict_with(serving, config) for serving in servings)
    opened = open_capture(capture) if capture else None
    distances, rows = compare_with(contract, opened) if opened else ((), 0)
    slots = tuple(_slot(contract, item) for item in distances)
    held = opened.manifest if opened else None
    first = servings[0].engine if servings else None
    origin = provenance(
        drafter_path=str(drafter),
        drafter_config_sha256=config.sha256,
        target_path=str(target) if target else held.target_path if held else None,
        layers=contract.target.layers,
        capture_path=str(capture) if capture else None,
        served_config_sha256=held.drafter_config_sha256 if held else None,
        engine=first.name if first else held.engine if held else None,
        engine_version=first.version if first else held.engine_version if held else None,
    )
    unchecked = _unchecked(config, opened, origin)
    found = [
        *_drafter_findings(config, contract),
        *(_target_findings(target, contract) if target else ()),
        *(item for pair in zip(servings, predicted, strict=True) for item in _engine_findings(*pair, contract)),
        *(_capture_findings(opened, contract, slots, rows) if opened else ()),
        *([not_measured(config, origin)] if held and held.served and unchecked else ()),
        *([] if servings else unchecked),
    ]
    compared = opened is None or (rows > 0 and all(slot.status != "unknown" for slot in slots))
    kept = compared and (bool(servings) or not unchecked)
    broken = any(item.severity == "error" for item in found)
    return ContractResult(
        action="verify",
        path=str(path),
        states=contract.states,
        verdict="broken" if broken else "kept" if kept else "undecided",
        imprints=len(contract.imprints),
        rows=rows,
        predicted=predicted,
        slots=slots,
        findings=fill_findings(sorted(found, key=lambda item: _ORDER[item.severity]), known_words(origin)),
        provenance=origin,
    )


def _unchecked(config: DrafterConfig, capture: Capture | None, origin: Provenance) -> list[Finding]:
    """One finding where no capture measures what this very config makes an engine serve; else none."""
    if capture is None:
        why = "neither an engine nor a capture was given"
    elif not capture.manifest.served:
        why = "a bank shows which states the promised values are; nothing was served in it"
    elif not measures_config(config, origin):
        why = "the capture is not known to have been served with this config"
    else:
        return []
    message = "which states this config makes an engine serve was not checked"
    return [finding("serving-unchecked", str(config.path), message, why)]


def _serving(text: str, architecture: str | None, contract: Contract) -> Serving:
    engine = parse_engine(text)
    names = [architecture] if architecture else [contract.target.wrapper, contract.target.inner]
    known = [name for name in names if name]
    if not known:
        message = "the contract names no target class, and ids mean different things in each"
        raise HsfError("usage", "--architecture", message, "add --architecture CLASS")
    name = next((name for name in known if has_rule(engine.name, name, contract.method)), known[0])
    return find_serving(engine, name, contract.target.layers, contract.method)


def _drafter_findings(config: DrafterConfig, contract: Contract) -> list[Finding]:
    """The drafter is still the one that the contract was written for."""
    side = read_drafter_side(config.path.parent, contract.target.hidden_size)
    found = []
    if contract.drafter_structure_sha256 != side.structure_sha256:
        message = "the weights' names, shapes or dtypes are not those that the contract was written for"
        evidence = f"promised {contract.drafter_structure_sha256}, found {side.structure_sha256}"
        found.append(finding("contract-broken", str(side.path), message, evidence))
    else:
        found += _weights_findings(side, contract)
    flags = drafter_flags(config, side)
    changed = {name: on for name, on in flags.items() if contract.flags.get(name, False) != on}
    if changed:
        shown = ", ".join(f"{name} is {str(on).lower()}" for name, on in changed.items())
        message = f"norm switches are not those of training: {shown}"
        found.append(finding("contract-broken", str(config.path), message, f"promised {contract.flags}"))
    return found


def _weights_findings(side: DrafterSide, contract: Contract) -> list[Finding]:
    """The weights have the promised structure; whether they have the promised values."""
    promised, where = contract.drafter_weights_sha256, str(side.path)
    if promised is None:
        message = "the contract holds no hash of the weights' values: only their names, shapes and dtypes were checked"
        if side.structure_sha256 is None:
            message = "no weights lay beside the contract when it was written, and none do now: they were not checked"
        told = finding("weights-unchecked", where, message, "drafter_weights_sha256 is null or absent")
        return [*fill_findings([told], engine_words(None, None, None, contract.states))]
    if promised == side.weights_sha256:
        return []
    message = "the weights have the promised names, shapes and dtypes, but other values"
    return [finding("contract-broken", where, message, f"promised {promised}, found {side.weights_sha256}")]


def _target_findings(path: Path, contract: Contract) -> list[Finding]:
    model, told = load_target(path), contract.target
    pairs = {
        "class": (told.wrapper, model.wrapper_class),
        "layers": (told.layers, model.layers),
        "hidden size": (told.hidden_size, model.hidden_size),
    }
    differ = {name: pair for name, pair in pairs.items() if pair[0] is not None and pair[0] != pair[1]}
    if differ:
        shown = ", ".join(f"{name} {got} instead of {said}" for name, (said, got) in differ.items())
        return [
            finding("contract-broken", str(path), f"this is not the target of training: {shown}", "its config.json")
        ]
    if told.config_sha256 not in (None, model.config_sha256):
        message = "the target's config.json is not the one of training, byte for byte; class and sizes agree"
        return [finding("contract-target-config", str(path), message, f"promised {told.config_sha256}")]
    return []


def _engine_findings(serving: Serving, predicted: Prediction, contract: Contract) -> list[Finding]:
    where, shown = str(serving), show_wiring(predicted.states)
    kept = predicted.states == contract.states
    code, word = ("config-serves-trained", "the promised states") if kept else ("config-serves-other", "other states")
    does = f"serve {word}: {shown}" if predicted.states is not None else what_happens(predicted.rule)
    message = f"by the id rule, this config makes {serving.engine.title} {does}"
    if not kept:
        message += f", promised {show_wiring(contract.states)}"
    commands = to_measure(str(serving.engine)) if kept else (REWRITE,)
    words = engine_words(str(serving.engine), serving.architecture, serving.layers, contract.states)
    told = finding(code, where, message, predicted.note, confidence="predicted", commands=commands)
    found = [*fill_findings([told], words)]
    for row in ignored_flags(serving.engine, contract.flags):
        since = f"versions other than {row.versions}" if row.versions else "all versions looked at"
        message = (
            f"the drafter needs {row.flag}, and {serving.engine.title} does not honour it: {since} {row.otherwise}"
        )
        found.append(finding("flag-ignored", where, message, row.source, confidence="predicted"))
    caveats = caveats_for(
        *(serving.engine.name, serving.engine.version, serving.architecture),
        at_default=False,
        method=serving.method,
    )
    return found + [
        finding("rule-caveat", where, f"{serving.engine.title}: {item.text}", predicted.note, confidence="predicted")
        for item in caveats
    ]


def _slot(contract: Contract, item: SlotDistance) -> ContractSlot:
    promised = contract.states[item.slot]
    known = [distance <= SAME for distance in (item.served,) if distance is not None]
    known += [item.state == promised] if item.state is not None else []
    status: Literal["matched", "mismatched", "unknown"] = "unknown"
    if known:
        status = "matched" if all(known) else "mismatched"
    served, distance = (x if x is not None and x < float("inf") else None for x in (item.served, item.distance))
    return ContractSlot(item.slot, promised, served, item.state, distance, status)


def _capture_findings(
    capture: Capture, contract: Contract, slots: tuple[ContractSlot, ...], rows: int
) -> list[Finding]:
    where = str(capture.path)
    if not rows:
        why = why_no_tokens(contract, capture)
        again = (MEASURE[0], _AGAIN) if contract.imprints else ()
        told = finding("tokens-unmatched", where, why.message, why.evidence, remedy=why.remedy, commands=again)
        return [told]
    found = []
    for slot in slots:
        if slot.status == "mismatched":
            served = "not finite" if slot.served is None else f"{slot.served:.3f}"
            nearest = f"; nearest in the capture: {show_state(slot.nearest)}" if slot.nearest is not None else ""
            message = f"slot {slot.slot} is promised {show_state(slot.promised)}, and the values differ{nearest}"
            evidence = f"relative distance of what was served: {served} (at most {SAME}), {rows} rows"
            found.append(finding("contract-broken", where, message, evidence))
    if capture.manifest.served not in (0, len(contract.states)):
        message = f"the engine fed {capture.manifest.served} states, promised were {len(contract.states)}"
        found.append(finding("contract-broken", where, message, "the capture's manifest"))
    return found
