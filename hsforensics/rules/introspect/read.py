"""The id rule of one class, read from an SGLang's own code, and held against the tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hsforensics.errors import HsfError
from hsforensics.rules.functions import NO_STATE
from hsforensics.rules.introspect.classes import ClassIndex
from hsforensics.rules.introspect.probe import ProbedHook, probe_classes
from hsforensics.rules.introspect.sources import read_sources
from hsforensics.rules.lookup import EngineVersion, find_rule
from hsforensics.rules.rows import Caveat, IdRule, Method
from hsforensics.rules.sglang_hooks import STORED_AS_THEY_ARE

_REMEDY = "leave --introspect out to use the tables, or measure with a live capture"
_LAST = {"IndexError": "crashes", "ValueError": "crashes"}
_POSITIONS = Caveat("where this version captures was not read: whether state 0 and state L can be had is not known")


@dataclass(frozen=True)
class Introspection:
    """What an SGLang's code says about one class.

    Attributes:
        engine: With the version that the code says it has.
        origin: Where the code lies.
        rule: The row that follows from it.
        tables: The tables' row, or ``None`` where they have none.
    """

    engine: EngineVersion
    origin: str
    rule: IdRule
    tables: IdRule | None

    @property
    def agrees(self) -> bool:
        """Whether the tables say the same; ``False`` also where they say nothing."""
        if self.tables is None:
            return False
        return (self.tables.rule, self.tables.default) == (self.rule.rule, self.rule.default)


def introspect(place: str, architecture: str, method: Method, expected: EngineVersion | None) -> Introspection:
    """Read a class's id rule out of the engine's code.

    The setter's own text runs on stub objects, in a separate process with a small part of Python; see
    ``hsforensics.rules.introspect.vetting``. Nothing of SGLang is imported.

    Args:
        place: A ``.whl`` file, a directory that holds ``sglang/``, or ``installed``.
        architecture: The target's model class.
        method: Kind of drafter.
        expected: The engine that was asked for; ``None`` takes whatever version lies there.

    Raises:
        HsfError: ``not-found``, ``engine-unreadable``, ``rule-unknown``, or ``usage`` for another version.
    """
    sources = read_sources(place)
    engine = _engine(sources.version, expected, sources.origin)
    index = ClassIndex(sources)
    info = index.entry_class(architecture)
    if info is None:
        message = f"its code has no model class {architecture} that it could load"
        raise HsfError("rule-unknown", sources.origin, message, _REMEDY)
    hooks = {hook.method: hook for hook in probe_classes(index, {architecture: info}, sources.origin)}
    hook = hooks.get(method)
    if hook is None:
        message = f"{architecture} has no hook for {method} drafters, only for: {', '.join(hooks) or 'none'}"
        raise HsfError("rule-unknown", sources.origin, message, _REMEDY)
    tables = _table(engine, architecture, method)
    return Introspection(engine, sources.origin, _row(hook, tables, engine, sources.origin), tables)


def _engine(found: str | None, expected: EngineVersion | None, origin: str) -> EngineVersion:
    if expected is not None and expected.name != "sglang":
        message = f"only SGLang's code can be read, not {expected.name}'s"
        raise HsfError("usage", "--introspect", message, "leave it out, or ask for sglang")
    if found is None and expected is None:
        raise HsfError("usage", "--engine", f"{origin} does not say its version", "add --engine sglang==VERSION")
    if expected is None:
        return EngineVersion("sglang", str(found))
    if found is not None and found != expected.version:
        message = f"the code is of version {found}, but {expected.version} was asked for"
        raise HsfError("usage", "--engine", message, f"write --engine sglang=={found}, or give other code")
    return expected


def _table(engine: EngineVersion, architecture: str, method: Method) -> IdRule | None:
    try:
        return find_rule(engine.name, engine.version, architecture, method)
    except HsfError:
        return None


def _row(hook: ProbedHook, tables: IdRule | None, engine: EngineVersion, origin: str) -> IdRule:
    """The table's row with what was read put in its place; what cannot be read stays, or is taken for the worst."""
    if hook.rule == "unknown":
        raise HsfError("rule-unknown", f"{origin}, {hook.architecture}", hook.note, _REMEDY)
    source = f"read from {origin}"
    if tables is None:
        last = _LAST.get(hook.top, "lost")
        return IdRule(
            *(engine.name, "introspected", f"=={engine.version}", hook.rule, False, source, "executed on stubs"),
            default=hook.default,
            last_state="crashes" if last == "crashes" else "lost",
            caveats=(_POSITIONS,),
            method=_method(hook),
        )
    stored = tables.family in STORED_AS_THEY_ARE and hook.rule == "as_is"
    stored |= tables.rule in NO_STATE and hook.rule == "plus_one"  # the fault lies in the forward pass, not read here
    default = hook.default if hook.method == "eagle3" else tables.default
    rule = tables.rule if stored else hook.rule
    return replace(tables, rule=rule, default=default, source=source, verified="executed on stubs")


def _method(hook: ProbedHook) -> Method:
    return "eagle3" if hook.method == "eagle3" else "dflash" if hook.method == "dflash" else "dspark"
