"""``hsforensics fix-config``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from hsforensics.cli.options import MethodOption, parse_wiring_option
from hsforensics.errors import EXIT_DIFFERENCE, EXIT_GOOD
from hsforensics.results import FixConfigResult

if TYPE_CHECKING:
    from hsforensics.flows.fix_inputs import FixWishes

_Engines: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="Engine to write for: 'sglang==0.5.16'; may be given several times. The report's by default."),
]
_Introspect: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="<path>", help="Read SGLang's id rule from its own code, see 'hsforensics rules --help'."),
]
_Output: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Write the edited config into this new directory, beside links to the weights, instead."),
]
_PermuteFc: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--permute-fc",
        help="Reorder fc's columns into a new checkpoint in --output, for a wiring that does not ascend.",
    ),
]


def fix_config_command(
    drafter: Annotated[Path, typer.Argument(help="The drafter's directory, or its config.json.")],
    report: Annotated[
        Path | None, typer.Option(help="Report of 'hsforensics compare --json', which names the trained wiring.")
    ] = None,
    wiring: Annotated[
        str | None, typer.Option(help="The trained wiring by hand, in fc order, such as '3,31,59'.")
    ] = None,
    engine: _Engines = None,
    architecture: Annotated[
        str | None, typer.Option(help="The target's model class; the report's or the target's own by default.")
    ] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Number of decoder layers of the target.")] = None,
    target: Annotated[
        Path | None, typer.Option(help="Directory of the target model, for its class, layers and width.")
    ] = None,
    introspect: _Introspect = None,
    method: Annotated[
        MethodOption | None, typer.Option(help="Kind of drafter; by default what its config says.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write the file: atomic, with a backup, read back.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Print one line only; exit 1 if a change is pending.")] = False,
    output: _Output = None,
    permute_fc: _PermuteFc = False,
    undo: Annotated[bool, typer.Option("--undo", help="Restore the newest backup; what was there is kept.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
) -> None:
    """Make a drafter's config ask engines for exactly the states that the drafter was trained on.

    Shows a diff and the reason of every change, and writes only with --write or --output. A second run has nothing to
    do. What an engine will serve follows from an id rule until a new capture measures it.

    Exit codes: 0 nothing to do, or written; 1 a change is pending, or this very config was measured to serve other
    states; 2 wrong command line; 3 refused: ambiguous report, another drafter's report, no rule, not expressible,
    unwritable.
    """
    if undo:
        _check_undo(any((report, wiring, engine, write, check, output, permute_fc)))
        _undo(drafter, as_json=as_json)
        return
    _check(report, wiring, write=write, check=check, output=output, permute_fc=permute_fc, as_json=as_json)
    from hsforensics.flows.fix_inputs import FixWishes
    from hsforensics.report.schema import load_compare_report

    wishes = FixWishes(
        report=load_compare_report(report) if report else None,
        wiring=parse_wiring_option(wiring, "--wiring"),
        engines=tuple(engine or ()),
        architecture=architecture,
        layers=layers,
        target=target,
        place=introspect,
        method=method.value if method else None,
    )
    if permute_fc and output is not None:
        _permute(drafter, wishes, output, as_json=as_json)
        return
    from hsforensics.flows.fix_config import carry_out

    result = carry_out(drafter, wishes, write=write, output=output)
    _render(result, check=check, as_json=as_json)
    raise typer.Exit(exit_code(result))


def exit_code(result: FixConfigResult) -> int:
    """1 while a change is pending, or when nothing was changed and a finding of severity error remains; else 0."""
    if result.written:
        return EXIT_GOOD
    errors = any(item.severity == "error" for item in result.findings)
    return EXIT_DIFFERENCE if result.pending or errors else EXIT_GOOD


def _check(
    report: Path | None,
    wiring: str | None,
    *,
    write: bool,
    check: bool,
    output: Path | None,
    permute_fc: bool,
    as_json: bool,
) -> None:
    """Refuse options that contradict each other."""
    if (report is None) == (wiring is None):
        raise typer.BadParameter("exactly one of --report and --wiring is needed: the trained wiring")
    if sum((write, check, output is not None)) > 1:
        raise typer.BadParameter("--write, --check and --output exclude each other")
    if check and as_json:
        raise typer.BadParameter("--check and --json exclude each other")
    if permute_fc and output is None:
        raise typer.BadParameter("--permute-fc writes a new checkpoint: name its directory with --output")


def _check_undo(others: bool) -> None:
    if others:
        raise typer.BadParameter("--undo goes with no other option but --json")


def _undo(drafter: Path, *, as_json: bool) -> None:
    from hsforensics.flows.undo_config import undo_config

    result = undo_config(drafter)
    if as_json:
        from hsforensics.report.schema import to_json

        typer.echo(to_json(result))
        return
    from hsforensics.report.console import console
    from hsforensics.report.fix_config import print_undo

    print_undo(result, console(sys.stdout))


def _permute(drafter: Path, wishes: FixWishes, output: Path, *, as_json: bool) -> None:
    from hsforensics.flows.permute_fc import permute_fc

    result = permute_fc(drafter, wishes, output)
    if as_json:
        from hsforensics.report.schema import to_json

        typer.echo(to_json(result))
        return
    from hsforensics.report.console import console
    from hsforensics.report.fix_config import print_permuted

    print_permuted(result, console(sys.stdout))


def _render(result: FixConfigResult, *, check: bool, as_json: bool) -> None:
    if as_json:
        from hsforensics.report.schema import to_json

        typer.echo(to_json(result))
        return
    from hsforensics.report.console import console, visible
    from hsforensics.report.fix_config import check_line, print_fix_config

    if check:
        typer.echo(check_line(result))
        for item in result.findings:
            if item.severity != "info":
                typer.echo(visible(f"{item.severity} {item.code}: {item.message}"), err=True)
    else:
        print_fix_config(result, console(sys.stdout))
