"""What ``fix-config`` works from: the wiring, the engine, the model class and L, each from a report or by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hsforensics.drafter.config import DrafterConfig, serving_of
from hsforensics.drafter.keys import method_of
from hsforensics.errors import HsfError
from hsforensics.flows.drafter_side import DrafterSide, read_drafter_side
from hsforensics.flows.known import known_paths, known_words
from hsforensics.flows.served_config import measures_config
from hsforensics.models.target import Target, load_target
from hsforensics.results import CompareResult
from hsforensics.rules.forward import Serving, find_serving
from hsforensics.rules.introspect.read import Introspection, introspect
from hsforensics.rules.lookup import EngineVersion, has_rule, known_engines, parse_engine
from hsforensics.rules.rows import Method
from hsforensics.states import State, Wiring, show_wiring

_BY_HAND = "name the wiring by hand: --wiring STATES"


@dataclass(frozen=True)
class FixEngine:
    """One engine to write for.

    Attributes:
        serving: Its rows for the target's class.
        wrapper: The class that the engine loads, when only the class inside it has a rule; else ``None``.
        seen: What its own code says, where that was read.
    """

    serving: Serving
    wrapper: str | None = None
    seen: Introspection | None = None

    @property
    def engine(self) -> EngineVersion:
        """Engine and version."""
        return self.serving.engine

    @property
    def architecture(self) -> str:
        """The model class whose rule applies."""
        return self.serving.architecture


@dataclass(frozen=True)
class FixInputs:
    """Everything that a config edit is computed from.

    Attributes:
        wiring: The trained wiring, to be served.
        engines: What the config is written for; at least one.
        layers: L of the target, if known.
    """

    wiring: tuple[State, ...]
    engines: tuple[FixEngine, ...]
    layers: int | None


@dataclass(frozen=True)
class FixWishes:
    """What a caller asks for; every part may be missing, and then comes from the report or the target.

    Attributes:
        report: What ``compare`` found.
        wiring: The trained wiring by hand.
        engines: ``NAME==VERSION`` of each engine to write for.
        architecture: The target's model class.
        layers: L of the target.
        target: The target's directory.
        place: Code of an SGLang to read its rule from.
        method: Kind of drafter; ``None``: the config's own word.
    """

    report: CompareResult | None = None
    wiring: tuple[State, ...] | None = None
    engines: tuple[str, ...] = ()
    architecture: str | None = None
    layers: int | None = None
    target: Path | None = None
    place: str | None = None
    method: Method | None = None


def known_words_of(drafter: Path, wishes: FixWishes) -> dict[str, str]:
    """What is known for commands (``hsforensics.findings.fill``): a report's inputs, but this drafter and target."""
    reported = known_words(wishes.report.provenance) if wishes.report else {}
    return {**reported, **known_paths(DRAFTER=drafter, MODEL=wishes.target)}


def resolve_inputs(config: DrafterConfig, wishes: FixWishes) -> FixInputs:
    """Take every input from where it was given, and refuse what is missing, ambiguous or contradictory.

    Raises:
        HsfError: ``usage``, ``evidence-ambiguous``, ``report-foreign``, ``rule-unknown``, or the target or drafter is
            unreadable.
    """
    report, wiring = wishes.report, wishes.wiring
    if (report is None) == (wiring is None):
        got = "both" if report else "neither"
        message = f"exactly one source of the trained wiring is needed, got {got}"
        raise HsfError("usage", "--report / --wiring", message, "give --report report.json, or --wiring STATES")
    model = load_target(wishes.target) if wishes.target else None
    side = own_side(config, report, model)
    trained = wiring or (trained_wiring(report) if report else ())
    check_slots(trained, side)
    layers = _layers(wishes.layers, model, report)
    classes = _classes(model, report)
    chosen = _engines(wishes.engines, report)
    known = replace(wishes, method=wishes.method or method_of(config))
    engines = (_engine(engine, known, classes, layers) for engine in chosen)
    applied = tuple(replace(each, serving=serving_of(each.serving, config)) for each in engines)
    return FixInputs(trained, applied, layers)


def _engine(engine: EngineVersion, wishes: FixWishes, classes: tuple[str, ...], layers: int | None) -> FixEngine:
    method = wishes.method or "eagle3"
    name, wrapper = _architecture(wishes.architecture, engine.name, classes, method)
    seen = None
    if wishes.place is not None and engine.name == "sglang":
        seen = introspect(wishes.place, name, method, engine)
    serving = find_serving(engine, name, layers, method, seen.rule if seen else None)
    return FixEngine(serving, wrapper, seen)


def trained_wiring(report: CompareResult) -> tuple[State, ...]:
    """The trained wiring of a report, if its evidence settles every slot.

    Raises:
        HsfError: ``evidence-ambiguous``.
    """
    doubted = [r for r in report.channels if r.side == "dump" and r.role == "aux" and not _settled(r.identity)]
    if doubted:
        first = doubted[0]
        message = f"channel '{first.label}' of the dump is {first.identity} ({first.note})"
        raise HsfError("evidence-ambiguous", "report", message, f"give compare more evidence, or {_BY_HAND}")
    found = report.trained_wiring
    states = tuple(state for state in found or () if state is not None)
    if not states or len(states) < len(found or ()):
        message = f"its trained wiring is {show_wiring(found)}, and every slot is needed"
        raise HsfError("evidence-ambiguous", "report", message, f"give compare more evidence, or {_BY_HAND}")
    return states


def measured_here(engine: EngineVersion, report: CompareResult | None) -> bool:
    """Whether the report's capture comes from the very engine version that is written for."""
    origin = report.provenance if report else None
    return origin is not None and (origin.engine, origin.engine_version) == (engine.name, engine.version)


def measured_wiring(config: DrafterConfig, engine: EngineVersion, report: CompareResult | None) -> Wiring | None:
    """What this very engine version was measured to serve with this very config; ``None`` unless all of it is known.

    The config that was given to ``compare`` is no evidence: what counts is the one that the capture was served with.
    """
    if report is None or not measured_here(engine, report) or not measures_config(config, report.provenance):
        return None
    return None if None in (report.served_wiring or (None,)) else report.served_wiring


def _settled(identity: str) -> bool:
    return identity in ("exact", "match")


def own_side(config: DrafterConfig, report: CompareResult | None, model: Target | None) -> DrafterSide:
    """The drafter whose config this is, refused where a report was made with another one, of whatever width.

    Raises:
        HsfError: ``report-foreign``, or the drafter is unreadable.
    """
    if report is not None:
        refuse_foreign(report, read_drafter_side(config.path.parent, None))
    return read_drafter_side(config.path.parent, state_width(config, report, model))


def refuse_foreign(report: CompareResult, side: DrafterSide) -> None:
    """A report that names a drafter must name this one: by its weights, which config edits leave alone.

    Raises:
        HsfError: ``report-foreign``.
    """
    origin = report.provenance
    pairs = {
        "weights of another structure": (origin.drafter_structure_sha256, side.structure_sha256),
        "weights of the same structure with other values": (origin.drafter_weights_sha256, side.weights_sha256),
    }
    for words, (said, found) in pairs.items():
        if said is not None and said != found:
            other = origin.drafter_path or "another drafter"
            got = words if found else "no weights to check that with"
            message = f"the report was made with {other}, and here are {got}"
            raise HsfError("report-foreign", side.path, message, f"compare with this drafter again, or {_BY_HAND}")


def state_width(config: DrafterConfig, report: CompareResult | None, model: Target | None) -> int | None:
    """Width of one state, from the config's own word for it, the evidence, or the drafter's width."""
    sources = (
        config.get("target_hidden_size"),
        model.hidden_size if model else None,
        report.provenance.hidden_size if report else None,
        config.get("hidden_size"),
        config.get("transformer_layer_config.hidden_size"),
    )
    return next((value for value in sources if isinstance(value, int) and value > 0), None)


def check_slots(wiring: tuple[State, ...], side: DrafterSide) -> None:
    """Refuse a wiring of another length than ``fc`` takes.

    Raises:
        HsfError: ``usage``.
    """
    if side.fc_channels not in (None, len(wiring)):
        message = f"{show_wiring(wiring)} has {len(wiring)} states, but fc.weight takes {side.fc_channels}"
        raise HsfError("usage", side.path, message, "give as many states as fc joins, in its order")


def _engines(given: tuple[str, ...], report: CompareResult | None) -> tuple[EngineVersion, ...]:
    if given:
        return tuple(dict.fromkeys(parse_engine(text) for text in given))
    origin = report.provenance if report else None
    if origin and origin.engine in known_engines() and origin.engine_version:
        return (parse_engine(f"{origin.engine}=={origin.engine_version}"),)
    message = "the engine that will serve the drafter is needed, since ids mean different things in each"
    raise HsfError("usage", "--engine", message, "add --engine sglang==0.5.16, with your version")


def _classes(model: Target | None, report: CompareResult | None) -> tuple[str, ...]:
    """Model classes that the evidence names, the one that the engine loads first."""
    if model is not None:
        return (model.wrapper_class, model.inner_class)
    origin = report.provenance if report else None
    names = (origin.target_wrapper, origin.target_inner) if origin else ()
    return tuple(name for name in names if name)


def _architecture(given: str | None, engine: str, classes: tuple[str, ...], method: Method) -> tuple[str, str | None]:
    """The class whose rule applies, and the wrapper around it when only the inner class has a rule."""
    if given is not None:
        return given, None
    if not classes:
        message = "the target's model class is needed, since ids mean different things in each"
        raise HsfError("usage", "--architecture", message, "add --architecture CLASS, or --target MODEL")
    name = next((name for name in classes if has_rule(engine, name, method)), classes[0])
    return name, None if name == classes[0] else classes[0]


def _layers(given: int | None, model: Target | None, report: CompareResult | None) -> int | None:
    """L, if anybody says it; two sources that disagree are an error.

    Raises:
        HsfError: ``usage``.
    """
    named = {
        "--layers": given,
        "--target": model.layers if model else None,
        "the report": report.provenance.layers if report else None,
    }
    said = {name: value for name, value in named.items() if value is not None}
    if len(set(said.values())) > 1:
        message = ", ".join(f"{name} says {value}" for name, value in said.items())
        raise HsfError("usage", "--layers", f"the number of layers is contradictory: {message}", "correct one of them")
    return next(iter(said.values()), None)
