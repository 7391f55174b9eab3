"""``hsforensics contract write`` and ``hsforensics contract verify``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hsforensics.cli.options import parse_wiring_option
from hsforensics.cli.shape import PlainGroup, register
from hsforensics.errors import EXIT_DIFFERENCE, EXIT_GOOD, EXIT_REFUSED
from hsforensics.results_contract import ContractResult

contract_app = typer.Typer(
    cls=PlainGroup,
    help="A small file beside a drafter that says which states it was trained on, with values to prove it.",
    no_args_is_help=True,
)

_EXITS = {"kept": EXIT_GOOD, "broken": EXIT_DIFFERENCE, "undecided": EXIT_REFUSED}


def write_command(
    drafter: Annotated[Path, typer.Argument(help="The drafter's directory.")],
    wiring: Annotated[str | None, typer.Option(help="The trained wiring, in fc order, such as '3,31,59'.")] = None,
    report: Annotated[Path | None, typer.Option(help="Report of 'hsforensics compare --json' instead.")] = None,
    dumps: Annotated[
        Path | None, typer.Option(help="Training data, whose first channels fc joins: a few values are kept.")
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Directory of the target model, for its identity.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Number of decoder layers, without --target.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a contract that promises something else.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
) -> None:
    """Write hsforensics-contract.json beside a drafter, best at the end of its training.

    It holds no text: token sequences appear only as hashes.

    Exit codes: 0 written; 2 wrong command line; 3 refused: ambiguous or foreign report, another contract is there.
    """
    from hsforensics.flows.contract import write_contract
    from hsforensics.report.schema import load_compare_report

    result = write_contract(
        drafter,
        wiring=parse_wiring_option(wiring, "--wiring"),
        report=load_compare_report(report) if report else None,
        dumps=dumps,
        target=target,
        layers=layers,
        force=force,
    )
    _render(result, as_json=as_json)


def verify_command(
    drafter: Annotated[Path, typer.Argument(help="The drafter's directory.")],
    capture: Annotated[
        Path | None, typer.Argument(help="Capture of the sequences that the contract holds values of.")
    ] = None,
    engine: Annotated[
        list[str] | None, typer.Option(help="Engine that will serve it: 'sglang==0.5.16'; may be given several times.")
    ] = None,
    architecture: Annotated[
        str | None, typer.Option(help="The target's model class; the contract's by default.")
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Directory of the target model, to check its identity.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
) -> None:
    """Check a drafter against its contract: by id rule for engines, by values for a capture.

    Made for the moment before a server starts, and for CI.

    Exit codes: 0 kept; 1 broken; 2 wrong command line; 3 undecided (neither an engine nor a live capture of this very
    config was given, or no request of the capture has the contract's tokens), or refused: no contract, or no rule.
    """
    from hsforensics.flows.verify_contract import verify_contract

    result = verify_contract(
        drafter, engines=tuple(engine or ()), architecture=architecture, target=target, capture=capture
    )
    _render(result, as_json=as_json)
    raise typer.Exit(_EXITS[result.verdict])


def _render(result: ContractResult, *, as_json: bool) -> None:
    if as_json:
        from hsforensics.report.schema import to_json

        typer.echo(to_json(result))
        return
    from hsforensics.report.console import console
    from hsforensics.report.contract import print_contract

    print_contract(result, console(sys.stdout))


register(contract_app, "hsforensics contract write", write_command)
register(contract_app, "hsforensics contract verify", verify_command)
