"""``hsforensics findings``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def findings_command(
    code: Annotated[str | None, typer.Argument(help="One code to explain; all of them by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
) -> None:
    """List every finding that this version can report, what it means, and what to do about it.

    Exit codes: 0 listed; 2 there is no such code.
    """
    from hsforensics.flows.catalogue import catalogue

    result = catalogue(code)
    if as_json:
        from hsforensics.report.schema import to_json

        typer.echo(to_json(result))
        return
    from hsforensics.report.console import console
    from hsforensics.report.findings import print_catalogue

    print_catalogue(result, console(sys.stdout))
