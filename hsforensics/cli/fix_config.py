"""``hsforensics fix-config``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hsforensics.cli.options import parse_wiring_option
from hsforensics.errors import EXIT_DIFFERENCE, EXIT_GOOD
from hsforensics.results import FixConfigResult


def fix_config_command(
    drafter: Annotated[Path, typer.Argument(help="The drafter's directory, or its config.json.")],
    report: Annotated[
        Path | None, typer.Option(help="Report of 'hsforensics compare --json', which names the trained wiring.")
    ] = None,
    wiring: Annotated[
        str | None, typer.Option(help="The trained wiring by hand, in fc order, such as '3,31,59'.")
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            help="Engine to write for: 'sglang==0.5.16'; may be repeated; the report's live engine by default."
        ),
    ] = None,
    architecture: Annotated[
        str | None, typer.Option(help="The target's model class; the report's or the target's own by default.")
    ] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Number of decoder layers of the target.")] = None,
    target: Annotated[
        Path | None, typer.Option(help="Directory of the target model, for its class, layers and width.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write the file: atomic, with a backup, read back.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Print one line only; exit 1 if a change is pending.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
) -> None:
    """Make a drafter's config ask one engine version for exactly the states that the drafter was trained on.

    Shows a diff and the reason of every change, and writes only with --write. A second run has nothing to do. What the
    engine will serve follows from an id rule until a new capture measures it.

    Examples:

      hsforensics fix-config DRAFTER --report report.json --engine sglang==0.5.16

      hsforensics fix-config DRAFTER --wiring 3,31,59 --engine sglang==0.5.12.post1 --target MODEL --write

    Exit codes: 0 nothing to do, or written; 1 a change is pending, or the engine was measured to disagree with its id
    rule; 2 wrong command line; 3 refused: ambiguous report, another drafter's report, no rule, not expressible,
    unwritable.
    """
    if (report is None) == (wiring is None):
        raise typer.BadParameter("exactly one of --report and --wiring is needed: the trained wiring")
    if sum((write, check)) > 1:
        raise typer.BadParameter("--write and --check exclude each other")
    if check and as_json:
        raise typer.BadParameter("--check and --json exclude each other")
    from hsforensics.flows.fix_config import fix_config
    from hsforensics.report.schema import load_compare_report

    result = fix_config(
        drafter,
        engine=tuple(engine or ()),
        architecture=architecture,
        layers=layers,
        wiring=parse_wiring_option(wiring, "--wiring"),
        report=load_compare_report(report) if report else None,
        target=target,
        write=write,
    )
    _render(result, check=check, as_json=as_json)
    raise typer.Exit(exit_code(result))


def exit_code(result: FixConfigResult) -> int:
    """1 while a change is pending, or when nothing was changed and a finding of severity error remains; else 0."""
    if result.written:
        return EXIT_GOOD
    errors = any(item.severity == "error" for item in result.findings)
    return EXIT_DIFFERENCE if result.pending or errors else EXIT_GOOD


def _render(result: FixConfigResult, *, check: bool, as_json: bool) -> None:
    if as_json:
        from hsforensics.report.schema import to_json

        typer.echo(to_json(result))
        return
    from hsforensics.report.console import console
    from hsforensics.report.fix_config import check_line, print_fix_config

    if check:
        typer.echo(check_line(result))
        for item in result.findings:
            if item.severity != "info":
                typer.echo(f"{item.severity} {item.code}: {item.message}", err=True)
    else:
        print_fix_config(result, console(sys.stdout))
