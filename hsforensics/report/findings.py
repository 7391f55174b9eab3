"""Findings on a terminal, and the catalogue of their kinds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from hsforensics.findings import YOURS
from hsforensics.report.console import print_wrapped, visible
from hsforensics.results_findings import CatalogueResult
from hsforensics.states import Finding

if TYPE_CHECKING:
    from rich.console import Console

_PLACES = 3
_WHOLE_SIDES = ("dump", "served", "bank")  # places that tell a reader nothing more
_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}


def print_findings(findings: Sequence[Finding], out: Console) -> None:
    """Print findings, most severe first as given: what, where, on what evidence, what to do.

    Findings that differ only in their place and their numbers, as those of many samples do, become one entry; those
    that follow each other and have one remedy share it; and no command is printed twice.
    """
    groups = _grouped(findings)
    typed: set[str] = set()
    for group, after in zip_longest(groups, groups[1:]):
        item = group[0]
        shared = after is not None and (after[0].code, after[0].remedy) == (item.code, item.remedy)
        out.print()
        _print_group(group, out, with_remedy=not shared)
        fresh = [] if shared else [command for command in item.commands if command not in typed]
        print_commands(fresh, out)
        typed.update(fresh)


def print_commands(commands: Sequence[str], out: Console) -> None:
    """Print what to type, each command in one line that a mouse can copy whole, and which words nobody has said yet."""
    from rich.text import Text

    for command in commands:
        out.print(Text(f"    $ {visible(command)}"), soft_wrap=True)
    left = [word for word in YOURS if any(word in command.split(" ") for command in commands)]
    if left:
        out.print(Text(f"      (put in your own {', '.join(left)})"))


def _print_group(group: Sequence[Finding], out: Console, *, with_remedy: bool) -> None:
    from rich.text import Text

    item, place = group[0], _places(group)
    mark = "" if item.confidence == "measured" else f" ({item.confidence})"
    mark += f" [{_shares(group)}]" if item.share is not None else ""
    print_wrapped(out, Text.assemble((item.severity, _STYLES[item.severity]), visible(f" {item.code}: {item.message}")))
    lines = (
        f"where:    {place}" if place else "",
        f"evidence: {item.evidence}{mark}",
        f"remedy:   {item.remedy}" if with_remedy else "",
    )
    for line in filter(None, lines):
        print_wrapped(out, line, indent=2)


def _grouped(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Findings of one kind at many places, whose messages differ in numbers and names of places only."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for item in findings:
        words = item.message
        for part in item.where.split(", "):
            words = words.replace(part, "@") if part else words
        key = (item.code, item.severity, item.confidence, re.sub(r"\d+", "#", words), item.remedy, *item.commands)
        groups.setdefault(key if _in_file(item) else (*key, item.where, item.message), []).append(item)
    return list(groups.values())


def _in_file(item: Finding) -> bool:
    """Whether a place is a channel of a sample, of which there may be many."""
    return ", " in item.where


def _shares(group: Sequence[Finding]) -> str:
    """How much the findings of a group explain, from the least to the most."""
    found = sorted({f"{item.share:.0%}": item.share for item in group if item.share is not None}.items(), key=_second)
    return f"explains {' to '.join(dict.fromkeys((found[0][0], found[-1][0])))}"


def _second(item: tuple[str, float]) -> float:
    return item[1]


def _places(group: Sequence[Finding]) -> str:
    """Where, unless the message says so already; of many places the first."""
    places = list(dict.fromkeys(item.where for item in group))
    if len(places) == 1:
        return "" if places[0] in (*_WHOLE_SIDES, "") or places[0] in group[0].message else places[0]
    more = f" and {len(places) - _PLACES} more" if len(places) > _PLACES else ""
    return f"{len(places)} places: {'; '.join(places[:_PLACES])}{more}"


def print_catalogue(result: CatalogueResult, out: Console) -> None:
    """Print the finding codes with severity, meaning, remedy and what to type for it."""
    from rich.text import Text

    for place, kind in enumerate(result.catalogue):
        if place:
            out.print()
        out.print(Text.assemble((kind.code, "bold"), " (", (kind.severity, _STYLES[kind.severity]), ")"))
        for line in (kind.meaning, f"remedy: {kind.remedy}"):
            print_wrapped(out, line, indent=2)
        print_commands(kind.commands, out)
