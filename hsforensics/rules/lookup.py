"""Finding the rows that apply to an engine, a version and a model class."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from hsforensics.errors import HsfError
from hsforensics.rules.tables import (
    CONFIG_READINGS,
    ENGINES,
    ID_RULES,
    MODEL_CLASSES,
    Caveat,
    ConfigReading,
    IdRule,
    ModelClass,
)


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
        HsfError: ``usage``, when a part is missing or the version is none that PEP 440 knows.
    """
    name, separator, version = (part.strip() for part in text.partition("=="))
    remedy = "write it as sglang==0.5.12.post1"
    if not name or not separator or not version:
        raise HsfError("usage", "--engine", f"an engine and its version are needed, got '{text}'", remedy)
    try:
        return EngineVersion(name.lower(), str(Version(version)))
    except InvalidVersion:
        raise HsfError("usage", "--engine", f"'{version}' is no version number", remedy) from None


def known_engines() -> tuple[str, ...]:
    """Names of the engines that have rules."""
    return tuple(ENGINES)


def known_classes(engine: str) -> tuple[str, ...]:
    """Model classes of an engine that have a rule, by name."""
    return tuple(sorted(row.name for row in MODEL_CLASSES if row.engine == engine))


def find_class(engine: str, version: str, architecture: str) -> ModelClass:
    """The row of a model class.

    Raises:
        HsfError: ``rule-unknown``: no such engine or class, or the class came later.
    """
    if engine not in ENGINES:
        raise _unknown(f"{engine}=={version}", f"no id rules for this engine, only for: {', '.join(ENGINES)}")
    where = f"{engine}=={version}, {architecture}"
    for row in MODEL_CLASSES:
        if (row.engine, row.name) == (engine, architecture):
            if Version(version) < Version(row.since):
                raise _unknown(where, f"this class takes layer ids from {engine} {row.since} on")
            return row
    raise _unknown(where, f"no id rule for this model class, only for: {', '.join(known_classes(engine))}")


def find_rule(engine: str, version: str, architecture: str) -> IdRule:
    """The id rule of a model class in one version.

    Raises:
        HsfError: ``rule-unknown``.
    """
    row = find_class(engine, version, architecture)
    return _in_range(rules_of(row), version, f"{engine}=={version}, {architecture}")


def rules_of(row: ModelClass) -> tuple[IdRule, ...]:
    """All id rules of a model class, oldest first; the oldest may begin before the class does."""
    return tuple(rule for rule in ID_RULES if (rule.engine, rule.family) == (row.engine, row.family))


def find_reading(engine: str, version: str) -> ConfigReading:
    """Which config keys an engine's version reads.

    Raises:
        HsfError: ``rule-unknown``.
    """
    if engine not in ENGINES:
        raise _unknown(f"{engine}=={version}", f"no id rules for this engine, only for: {', '.join(ENGINES)}")
    rows = [row for row in CONFIG_READINGS if row.engine == engine]
    return _in_range(rows, version, f"{engine}=={version}")


def caveats_for(engine: str, version: str, architecture: str, *, at_default: bool) -> tuple[Caveat, ...]:
    """Known traps of this version and class.

    Args:
        at_default: Whether the wiring in question is the engine's default, to which some traps do not matter.

    Raises:
        HsfError: ``rule-unknown``.
    """
    rows = (find_reading(engine, version), find_rule(engine, version, architecture))
    found = [caveat for row in rows for caveat in row.caveats if not (at_default and caveat.harmless_at_default)]
    newest = ENGINES[engine].newest
    if Version(Version(version).public) > Version(newest):
        found.append(Caveat(f"newer than {newest}, the newest version looked at: its rule is taken to be the same"))
    return tuple(found)


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


def _is_pre(version: str) -> bool:
    return Version(version).is_prerelease


def _unknown(where: str, message: str) -> HsfError:
    remedy = "name a known engine, version or class that behaves alike, or measure with hsforensics capture"
    return HsfError("rule-unknown", where, message, remedy)
