"""The edits that make an engine serve a wiring: which values change and why, the new text, and its diff."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from hsforensics.drafter.config import DrafterConfig, ids_read_by
from hsforensics.drafter.splice import set_value
from hsforensics.results import ConfigEdit
from hsforensics.rules.functions import Ids
from hsforensics.rules.tables import ConfigReading

_LINES = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True)
class Change:
    """One value to set: dotted key, value, and the reason in plain words."""

    key: str
    value: object
    reason: str


def ids_changes(config: DrafterConfig, reading: ConfigReading, ids: Ids, reason: str) -> tuple[Change, ...]:
    """Changes that make an engine with this row of ``CONFIG_READINGS`` read ``ids``; only what differs.

    Raises:
        ValueError: The engine reads no ids.
    """
    if reading.ids_key is None:
        raise ValueError("this engine reads no layer ids")
    read = ids_read_by(config, reading)
    changes = []
    if read.ids != ids:
        changes.append(Change(reading.ids_key, list(ids), reason))
    if read.off and reading.switch_key:
        off = "while it is off the engine feeds postnorm alone and never looks at layer ids"
        changes.append(Change(reading.switch_key, True, off))
    return tuple(changes)


def count_changes(config: DrafterConfig, reading: ConfigReading, states: int) -> tuple[Change, ...]:
    """A change of the count that sizes ``fc``, when the config gives one and it is wrong."""
    value = config.get(reading.count_key) if reading.count_key else None
    if value is None or value == states or reading.count_key is None:
        return ()
    return (Change(reading.count_key, states, f"it sizes fc, which takes {states} states"),)


def apply_changes(text: str, changes: tuple[Change, ...]) -> str:
    """The config's text with the changes spliced in; every other byte stays.

    Raises:
        RuntimeError: The new text does not parse to what was meant: a bug, and nothing has been written.
    """
    meant = json.loads(text)
    for change in changes:
        meant = _with_value(meant, change.key.split("."), change.value)
        text = set_value(text, change.key.split("."), change.value)
    if json.dumps(json.loads(text)) != json.dumps(meant):
        raise RuntimeError("the spliced config does not hold what was meant")
    return text


def describe(config: DrafterConfig, changes: tuple[Change, ...]) -> tuple[ConfigEdit, ...]:
    """The changes as records of a result."""
    return tuple(
        ConfigEdit(change.key, _before(config, change.key), json.dumps(change.value), change.reason)
        for change in changes
    )


def diff_text(before: str, after: str, name: str) -> str:
    """A unified diff that ``patch`` and ``git apply`` take; empty for equal texts.

    Lines end at ``\\n`` only, so that carriage returns and exotic separators inside of strings stay where they are.
    """
    lines = unified_diff(_LINES.findall(before), _LINES.findall(after), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _before(config: DrafterConfig, key: str) -> str | None:
    absent = object()
    value = config.get(key, absent)
    return None if value is absent else json.dumps(value)


def _with_value(data: Any, path: list[str], value: object) -> dict[str, Any]:
    """A copy of an object with one value set; what stands in the way of the path becomes an object."""
    made = copy.copy(data) if isinstance(data, dict) else {}
    made[path[0]] = value if len(path) == 1 else _with_value(made.get(path[0]), path[1:], value)
    return made
