"""The result of ``hsforensics demo``; part of the result schema, see ``hsforensics.results``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from hsforensics.results import SCHEMA_VERSION, CompareResult, DraftEvalResult, FixConfigResult, Provenance

ActResult: TypeAlias = CompareResult | DraftEvalResult | FixConfigResult
"""What an act ran: told apart by ``kind``."""

ActName: TypeAlias = Literal["trainer", "belief", "values", "evidence", "repair", "proof", "measured"]
"""``trainer``: the number that misled. ``belief``: the accuracy of the wiring that the labels led to. ``values``: the
dumps against the target's files. ``evidence``: the dumps against a bank or the recorded engine. ``repair``: the config.
``proof``: both wirings evaluated again. ``measured``: the repaired drafter's recorded serving."""


@dataclass(frozen=True)
class DemoAct:
    """One step of the story.

    Attributes:
        name: See ``ActName``.
        title: What is done, for people.
        commands: What to type for it, in a copy of the incident's files.
        result: What it gave, exactly as that command gives it.
        lesson: What it shows, with the numbers.
    """

    name: ActName
    title: str
    commands: tuple[str, ...]
    result: ActResult
    lesson: str


@dataclass(frozen=True)
class DemoResult:
    """The incident, replayed.

    Attributes:
        incident: Directory of the incident's files.
        kept: The copy that was played on, if it was kept.
        recorded: Whether captures of a real engine were there; without them serving is predicted, not measured.
        acts: In the order of the story.
        summary: Two lines: what was wrong, and what the repair is worth.
        next_commands: What to type on one's own files.
    """

    incident: str
    kept: str | None
    recorded: bool
    acts: tuple[DemoAct, ...]
    summary: tuple[str, str]
    next_commands: tuple[str, ...]
    provenance: Provenance
    kind: Literal["demo"] = "demo"
    schema_version: Literal[1] = SCHEMA_VERSION
