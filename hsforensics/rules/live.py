"""Which rules were seen at work in a real engine: ids that were given to it, and the states that it then served.

The record is that of the live tests (``tests/sglang``), which run every row on a real SGLang and infer the states from
values; a test compares it with them and with the tables.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from packaging.version import Version

from hsforensics.rules.functions import Ids
from hsforensics.rules.lookup import covers, rules_of
from hsforensics.rules.rows import IdRule, ModelClass, Verified

LIVE_FILE = Path(__file__).parent / "data" / "live_checks.json"


@dataclass(frozen=True)
class LiveCheck:
    """One list of ids in one real engine.

    Attributes:
        layers: L of the tiny target.
        ids: What the config asked for; ``None`` for no ids.
        served: States that were served; ``dies`` when the engine died, ``off-bank`` when it served no state at all.
    """

    engine: str
    version: str
    architecture: str
    layers: int
    ids: Ids | None
    served: tuple[int, ...] | Literal["dies", "off-bank"]


@dataclass(frozen=True)
class LiveLoop:
    """``fix-config`` wrote ids, the setter of the engine's own model was given them, ``compare`` judged.

    Attributes:
        served: Wirings that were written and then captured, to the state.
        refused: Wirings that ``fix-config`` refused to write.
    """

    engine: str
    version: str
    architecture: str
    layers: int
    served: tuple[Ids, ...]
    refused: tuple[Ids, ...]


@cache
def live_loops() -> tuple[LiveLoop, ...]:
    """All loops of the record."""
    rows = json.loads(LIVE_FILE.read_text(encoding="utf-8"))["loops"]
    return tuple(LiveLoop(*row[:4], *(tuple(map(tuple, wirings)) for wirings in row[4:])) for row in rows)


@cache
def live_engines() -> tuple[tuple[str, str, str, int, Ids], ...]:
    """Whole engines that started on the directory that ``fix-config`` wrote: engine, version, class, L, served."""
    rows = json.loads(LIVE_FILE.read_text(encoding="utf-8"))["engines"]
    return tuple((*row[:4], tuple(row[4])) for row in rows)


@cache
def live_checks() -> tuple[LiveCheck, ...]:
    """All rows of the record."""
    rows = json.loads(LIVE_FILE.read_text(encoding="utf-8"))["checks"]
    return tuple(_check(*row) for row in rows)


def _check(
    engine: str,
    version: str,
    architecture: str,
    layers: int,
    ids: list[int] | None,
    served: list[int] | Literal["dies", "off-bank"],
) -> LiveCheck:
    states = served if isinstance(served, str) else tuple(served)
    return LiveCheck(engine, version, architecture, layers, None if ids is None else tuple(ids), states)


def how_known(model: ModelClass, rule: IdRule, version: str) -> Verified:
    """How a row is known for one class in one version: live only if an engine of this very version was run."""
    return "verified live" if Version(version).public in versions_seen(model, rule) else rule.verified


def versions_seen(model: ModelClass, rule: IdRule) -> tuple[str, ...]:
    """Versions in which a real engine was seen to follow a row for a class."""
    if rule not in rules_of(model):
        return ()
    seen = (
        check.version
        for check in live_checks()
        if (check.engine, check.architecture) == (model.engine, model.name)
        and model.method == "eagle3"
        and covers(rule.versions, check.version)
    )
    return tuple(dict.fromkeys(seen))
