"""The recorded answers of SGLang's releases (``tools/scan_sglang.py``): what each class does with layer ids."""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any

SCAN_FILE = Path(__file__).parent / "data" / "sglang_scan.json"
_FORMAT = "hsforensics-sglang-scan-1"


@dataclass(frozen=True)
class Answer:
    """What running a hook on stubs showed; see ``hsforensics.rules.introspect.probe.ProbedHook``."""

    rule: str
    default: str
    top: str
    marks: str


@dataclass(frozen=True)
class Run:
    """Neighbouring releases, ``first`` to ``last``, in which a class's hook gives the same answer."""

    architecture: str
    method: str
    first: str
    last: str
    answer: Answer


@dataclass(frozen=True)
class Scan:
    """The whole record: all releases looked at, oldest first, and the runs."""

    releases: tuple[str, ...]
    runs: tuple[Run, ...]

    def answer(self, architecture: str, method: str, version: str) -> Answer | None:
        """What one release answered; ``None`` when it has no such hook or was not looked at."""
        if version not in self.releases:
            return None
        place = self.releases.index(version)
        for run in self.runs:
            same = (run.architecture, run.method) == (architecture, method)
            if same and self.releases.index(run.first) <= place <= self.releases.index(run.last):
                return run.answer
        return None


@cache
def load_scan() -> Scan:
    """Read the record that comes with the package."""
    data = json.loads(SCAN_FILE.read_text(encoding="utf-8"))
    return Scan(tuple(data["releases"]), tuple(_run(*row) for row in data["answers"]))


def _run(architecture: str, method: str, first: str, last: str, *answer: str) -> Run:
    return Run(architecture, method, first, last, Answer(*answer))


def pack(found: dict[str, dict[tuple[str, str], Answer]]) -> dict[str, Any]:
    """Answers by release, oldest first, as JSON data: one row for each run."""
    releases = list(found)
    rows: list[list[str]] = []
    for key in sorted({key for answers in found.values() for key in answers}):
        row: list[str] | None = None
        for version in releases:
            answer = found[version].get(key)
            if answer is None:
                row = None
            elif row is not None and row[4:] == [*astuple(answer)]:
                row[3] = version
            else:
                row = [*key, version, version, *astuple(answer)]
                rows.append(row)
    return {"format": _FORMAT, "releases": releases, "answers": rows}


def unpack(data: dict[str, Any]) -> dict[str, dict[tuple[str, str], Answer]]:
    """The reverse of ``pack``."""
    releases: list[str] = data["releases"]
    found: dict[str, dict[tuple[str, str], Answer]] = {version: {} for version in releases}
    for architecture, method, first, last, *answer in data["answers"]:
        for version in releases[releases.index(first) : releases.index(last) + 1]:
            found[version][architecture, method] = Answer(*answer)
    return found
