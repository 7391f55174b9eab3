"""``hsforensics findings``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from hsforensics.findings import CATALOGUE


def findings_command(
    code: Annotated[str | None, typer.Argument(help="One code to explain; all of them by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the catalogue as JSON.")] = False,
) -> None:
    """List every finding that this version can report, what it means, and what to do about it."""
    if code is not None and code not in CATALOGUE:
        raise typer.BadParameter(f"no finding is called {code!r}; 'hsforensics findings' lists them all")
    kinds = [kind for kind in CATALOGUE.values() if code in (None, kind.code)]
    if as_json:
        typer.echo(json.dumps([asdict(kind) for kind in kinds], indent=2))
        return
    from hsforensics.report.console import console
    from hsforensics.report.findings import print_catalogue

    print_catalogue(kinds, console(sys.stdout))
