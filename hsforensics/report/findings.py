"""Findings on a terminal, and the catalogue of their kinds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hsforensics.findings import FindingKind
from hsforensics.report.console import visible
from hsforensics.states import Finding

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}


def print_findings(findings: Sequence[Finding], out: Console) -> None:
    """Print findings, most severe first as given: what, on what evidence, what to do."""
    from rich.padding import Padding
    from rich.text import Text

    for item in findings:
        head = Text.assemble((item.severity, _STYLES[item.severity]), visible(f" {item.code}: {item.message}"))
        mark = "" if item.confidence == "measured" else f" ({item.confidence})"
        out.print()
        out.print(head)
        for line in (f"evidence: {item.evidence}{mark}", f"remedy:   {item.remedy}"):
            out.print(Padding(Text(visible(line)), (0, 0, 0, 2), expand=False))


def print_catalogue(kinds: Iterable[FindingKind], out: Console) -> None:
    """Print the finding codes with severity, meaning and remedy."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("code", no_wrap=True)
    table.add_column("severity")
    table.add_column("meaning and remedy")
    for kind in kinds:
        table.add_row(kind.code, kind.severity, f"{kind.meaning}\n{kind.remedy}")
    out.print(table)
