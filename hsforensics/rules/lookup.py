"""Finding the rows that apply to an engine, a version and a model class."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol, TypeVar

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from hsforensics.errors import HsfError, closest
from hsforensics.rules.rows import Caveat, ConfigReading, Engine, IdRule, Method, ModelClass, RunnerChoice
from hsforensics.rules.tables import CONFIG_READINGS, ENGINES, ID_RULES, MODEL_CLASSES, RUNNERS
from hsforensics.shell import quoted


class _Ranged(Protocol):
    @property
    def engine(self) -> str: ...

    @property
    def versions(self) -> str: ...


_Row = TypeVar("_Row", bound=_Ranged)


@dataclass(frozen=True)
class EngineVersion:
    """An engine and its version, as in ``sglang==0.5.12.post1``."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"

    @property
    def title(self) -> str:
        """For prose: ``SGLang 0.5.12.post1``."""
        engine = ENGINES.get(self.name)
        return f"{engine.title if engine else self.name} {self.version}"


def parse_engine(text: str) -> EngineVersion:
    """Read ``NAME==VERSION``.

    Raises:
        HsfError: ``usage``, when a part is missing, the name is nearly that of an engine with rules, or the version is
            none that PEP 440 knows.
    """
    name, separator, version = (part.strip() for part in text.partition("=="))
    remedy = "write it as sglang==0.5.12.post1"
    if not name or not separator or not version:
        raise HsfError("usage", "--engine", f"an engine and its version are needed, got '{text}'", remedy)
    meant = closest(name.lower(), ENGINES)
    if meant not in (None, name.lower()):
        raise HsfError("usage", "--engine", f"'{name}' is no engine", f"did you mean {meant}=={version}?")
    try:
        return EngineVersion(name.lower(), str(Version(version)))
    except InvalidVersion:
        raise HsfError("usage", "--engine", f"'{version}' is no version number", remedy) from None


def known_engines() -> tuple[str, ...]:
    """Names of the engines that have rules."""
    return tuple(ENGINES)


def known_classes(engine: str, method: Method = "eagle3") -> tuple[str, ...]:
    """Model classes of an engine that have a row of their own, by name."""
    base = _engine_row(engine, engine).rules_of
    rows = (row for row in MODEL_CLASSES if (row.engine, row.method) == (base, method))
    return tuple(sorted({row.name for row in rows} - {"*"}))


def has_rule(engine: str, architecture: str, method: Method = "eagle3") -> bool:
    """Whether a class has a row in some version, its own or the engine's row for every class."""
    return bool(engine in ENGINES and class_rows(engine, architecture, method))


def class_rows(engine: str, architecture: str, method: Method = "eagle3") -> tuple[ModelClass, ...]:
    """All rows of a model class, oldest first; those for every class where it has none of its own."""
    base = _engine_row(engine, engine).rules_of
    rows = tuple(row for row in MODEL_CLASSES if (row.engine, row.method) == (base, method))
    own = tuple(row for row in rows if row.name == architecture)
    return own or tuple(row for row in rows if row.name == "*")


def find_class(engine: str, version: str, architecture: str, method: Method = "eagle3") -> ModelClass:
    """The row of a model class.

    Raises:
        HsfError: ``rule-unknown``: no such engine or class, or the class came later, or is gone.
    """
    where = f"{engine}=={version}, {architecture}"
    _engine_row(engine, f"{engine}=={version}")
    rows = class_rows(engine, architecture, method)
    if not rows:
        kind = "" if method == "eagle3" else f" of {method} drafters"
        raise _unknown(
            where, f"no id rule{kind} for this model class; {_near(known_classes(engine, method), architecture)}"
        )
    for row in rows:
        if Version(row.since) <= Version(version) and (row.until is None or Version(version) < Version(row.until)):
            return row
    spans = " | ".join(f"{row.since} on" if row.until is None else f"{row.since} to before {row.until}" for row in rows)
    raise _unknown(where, f"this class takes layer ids from {engine} {spans}")


def find_rule(engine: str, version: str, architecture: str, method: Method = "eagle3") -> IdRule:
    """The id rule of a model class in one version.

    Raises:
        HsfError: ``rule-unknown``.
    """
    row = find_class(engine, version, architecture, method)
    return _in_range(rules_of(row), version, f"{engine}=={version}, {architecture}")


def rules_of(row: ModelClass) -> tuple[IdRule, ...]:
    """All id rules of a model class, oldest first; the oldest may begin before the class does."""
    key = (row.engine, row.family, row.method)
    return tuple(rule for rule in ID_RULES if (rule.engine, rule.family, rule.method) == key)


def find_reading(
    engine: str, version: str, architecture: str | None = None, method: Method = "eagle3"
) -> ConfigReading:
    """Which config keys an engine's version reads.

    Args:
        engine: Name.
        version: PEP 440 version.
        architecture: The target's model class, which in some engines decides which runner reads the config.
        method: Kind of drafter.

    Raises:
        HsfError: ``rule-unknown``.
    """
    _engine_row(engine, f"{engine}=={version}")
    choice = runner_choice(engine, version, architecture)
    rows = readings_of(choice.runner if choice else engine, method)
    if not rows:
        raise _unknown(f"{engine}=={version}", f"nothing is known of {method} drafters in this engine")
    return _in_range(rows, version, f"{engine}=={version}")


def readings_of(engine: str, method: Method = "eagle3") -> tuple[ConfigReading, ...]:
    """All rows of config reading of an engine, oldest first."""
    return tuple(row for row in CONFIG_READINGS if (row.engine, row.method) == (engine, method))


def runner_choice(engine: str, version: str, architecture: str | None) -> RunnerChoice | None:
    """Which runner an engine with several takes by default; ``None`` for an engine with one."""
    for row in RUNNERS:
        if row.engine == engine and covers(row.versions, version) and _takes(row, architecture):
            return row
    return None


def caveats_for(
    engine: str,
    version: str,
    architecture: str,
    *,
    at_default: bool,
    method: Method = "eagle3",
    by_hand: bool = False,
    introspected: bool = False,
) -> tuple[Caveat, ...]:
    """Known traps of this version and class.

    Args:
        engine: Name.
        version: PEP 440 version.
        architecture: The target's model class.
        at_default: Whether the wiring in question is the engine's default, to which some traps do not matter.
        method: Kind of drafter.
        by_hand: Include what matters only to who writes ids by hand.
        introspected: The rule was read from the engine's own code, so that its version is not in doubt.

    Raises:
        HsfError: ``rule-unknown``.
    """
    choice = runner_choice(engine, version, architecture)
    rows = (
        find_reading(engine, version, architecture, method),
        find_rule(engine, version, architecture, method),
        *((choice,) if choice else ()),
    )
    found = [caveat for row in rows for caveat in row.caveats if not (at_default and caveat.harmless_at_default)]
    found = [caveat for caveat in found if by_hand or not caveat.by_hand]
    return (*found, *(() if introspected else newer_caveats(engine, version, architecture, method)))


def newer_caveats(engine: str, version: str, architecture: str, method: Method = "eagle3") -> tuple[Caveat, ...]:
    """That a version is newer than all that were looked at, so that its rule is a guess; nothing for the others."""
    if not is_newer(engine, version):
        return ()
    text = f"newer than {ENGINES[engine].newest}, the newest version looked at: its rule is taken to be the same"
    return (Caveat(text + (_ask_code(architecture, method) if engine == "sglang" else "")),)


def _ask_code(architecture: str, method: Method) -> str:
    """What to type to read a rule from the engine's own code."""
    kind = "" if method == "eagle3" else f" --method {method}"
    command = f"hsforensics rules --introspect installed --architecture {quoted(architecture) or 'CLASS'}{kind}"
    return f"; capture it live, or read it from its own code, installed or a wheel's path: {command}"


def is_newer(engine: str, version: str) -> bool:
    """Whether a version is newer than all that were looked at."""
    newest = ENGINES[engine].newest
    return newest is not None and Version(Version(version).public) > Version(newest)


def covers(versions: str, version: str) -> bool:
    """Whether a specifier covers a version; pre-releases count."""
    return SpecifierSet(versions).contains(version, prereleases=True)


def _in_range(rows: Iterable[_Row], version: str, where: str) -> _Row:
    known = tuple(rows)
    for row in known:
        if covers(row.versions, version):
            return row
    ranges = " | ".join(row.versions for row in known)
    hint = ", and a pre-release of a version where something changed is in none" if _is_pre(version) else ""
    raise _unknown(where, f"this version is in none of the ranges looked at ({ranges}){hint}")


def _takes(row: RunnerChoice, architecture: str | None) -> bool:
    return row.classes is None or architecture in row.classes


def _engine_row(engine: str, where: str) -> Engine:
    row = ENGINES.get(engine)
    if row is None:
        raise _unknown(where, f"no id rules for this engine, only for: {', '.join(ENGINES)}")
    return row


def _near(names: tuple[str, ...], wanted: str) -> str:
    """The known names that look most like the wanted one."""
    near = get_close_matches(wanted, names, n=4, cutoff=0.3)
    return f"of {len(names)} known classes these come nearest: {', '.join(near) or 'none'}"


def _is_pre(version: str) -> bool:
    return Version(version).is_prerelease


def _unknown(where: str, message: str) -> HsfError:
    remedy = "name a known engine, version or class that behaves alike, or measure with hsforensics capture"
    return HsfError("rule-unknown", where, message, remedy)
