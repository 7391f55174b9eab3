"""``hsforensics demo``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def demo_command(
    keep: Annotated[
        Path | None, typer.Option(help="Directory to create: keeps the copy that is played on, to try the commands.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
) -> None:
    """Replay the incident behind this tool on a small target and drafter that were really trained. Takes seconds.

    A drafter with a good training accuracy drafts badly in service. Believe the labels, look at the values, repair a
    copy of the config, measure again. Needs no GPU, no engine and no network.

    Exit codes: 0 replayed; 3 without the files, or with nothing to compute reference states.
    """
    from hsforensics.flows.demo import demo

    result = demo(keep=keep)
    if as_json:
        from hsforensics.report.schema import to_json

        typer.echo(to_json(result))
    else:
        from hsforensics.report.console import console
        from hsforensics.report.demo import print_demo

        print_demo(result, console(sys.stdout))
