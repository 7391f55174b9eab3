"""The result of ``hsforensics rules``; part of the result schema, see ``hsforensics.results``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from hsforensics.results import SCHEMA_VERSION, Provenance
from hsforensics.states import Finding, State, Wiring

NOWHERE: Final = "nowhere"
"""The key of an engine that reads no ids, and serves its default."""


@dataclass(frozen=True)
class RuleAlternative:
    """Another way to have states served, and what it costs.

    Attributes:
        kind: ``spelling`` (another list, the same states), ``order`` (the same states joined in ascending order),
            ``version``, ``engine``, or ``nearest`` (other states close by).
        engine: ``NAME==VERSION`` to use, or the same as asked for.
        versions: All versions that would do, as a specifier; ``None`` where it is not about versions.
        states: What is served.
        ids: The list to write.
        key: Where to write it: a config key, a launch argument, or ``nowhere``.
        cost: What the change costs, in words.
    """

    kind: Literal["spelling", "order", "version", "engine", "nearest"]
    engine: str
    versions: str | None
    states: tuple[State, ...]
    ids: tuple[int, ...]
    key: str
    cost: str


@dataclass(frozen=True)
class RulesResult:
    """What ``hsforensics rules`` answers.

    Attributes:
        engine: ``NAME==VERSION``.
        architecture: The target's model class.
        method: ``eagle3``, ``dflash`` or ``dspark``.
        layers: L, if known.
        question: Whether ids or states were given.
        ids: The ids given (``None``: none, so the default was asked for), or those to write.
        states: What they serve, or what was asked for; ``None`` when the engine fails, or serves no state.
        expressible: Whether ids exist; ``None`` for the question about ids.
        key: Where this engine reads ids: a config key, or a launch argument; ``None`` if nowhere.
        rule: Name of the id rule.
        source: Where it is known from.
        verified: How it is known; ``verified live`` only for a version that was run itself.
        reason: Why the answer is what it is, in words.
        alternatives: Other ways, the cheapest first.
        seen_live: Versions that were run and followed this very row.
        meaning: What ids mean under the rule, in plain words.
    """

    engine: str
    architecture: str
    method: Literal["eagle3", "dflash", "dspark"]
    layers: int | None
    question: Literal["ids", "states"]
    ids: tuple[int, ...] | None
    states: Wiring | None
    expressible: bool | None
    key: str | None
    rule: str
    source: str
    verified: Literal["verified live", "executed on stubs", "read from source", "unknown"]
    reason: str
    alternatives: tuple[RuleAlternative, ...]
    findings: tuple[Finding, ...]
    provenance: Provenance
    seen_live: tuple[str, ...] = ()
    meaning: str = ""
    kind: Literal["rules"] = "rules"
    schema_version: Literal[1] = SCHEMA_VERSION
