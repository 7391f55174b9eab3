"""``hsforensics rules``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hsforensics.cli.options import MethodOption, parse_ids_option, parse_wiring_option
from hsforensics.errors import EXIT_DIFFERENCE, EXIT_GOOD, EXIT_REFUSED
from hsforensics.results_rules import RulesResult


def rules_command(
    engine: Annotated[
        str | None,
        typer.Option(
            help="Engine and version: 'sglang==0.5.16', 'vllm==0.33.0', 'vllm-v1==0.24.0', 'tensorrt-llm==1'."
        ),
    ] = None,
    architecture: Annotated[str | None, typer.Option(help="The target's model class.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Number of decoder layers of the target.")] = None,
    target: Annotated[
        Path | None, typer.Option(help="Directory of the target model, for its class and layers.")
    ] = None,
    ids: Annotated[str | None, typer.Option(help="Which states do these layer ids serve? Such as '2,30,58'.")] = None,
    states: Annotated[str | None, typer.Option(help="Which layer ids serve these states? Such as '3,31,59'.")] = None,
    method: Annotated[MethodOption, typer.Option(help="Kind of drafter.")] = MethodOption.EAGLE3,
    introspect: Annotated[
        str | None,
        typer.Option(
            metavar="<path>",
            help="Read the rule from an SGLang's own code: a .whl, the directory of an unpacked one, or 'installed'. "
            "Runs its setter, checked and alone, in a separate process.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
) -> None:
    """Say what layer ids mean to an engine, version and model class, or which ids ask for given states.

    With --ids: the states that they serve. With --states: the ids to write, or that there are none, and other ways with
    their price. With neither: what the engine serves when a config holds no ids.

    Exit codes: 0 answered; 1 the engine fails with these ids, or its code denies the tables; 2 wrong command line;
    3 not expressible, or no rule is known.
    """
    from hsforensics.flows.rules import rules

    result = rules(
        engine=engine,
        architecture=architecture,
        layers=layers,
        target=target,
        ids=parse_ids_option(ids, "--ids"),
        states=parse_wiring_option(states, "--states"),
        method=method.value,
        place=introspect,
    )
    _render(result, as_json=as_json)
    raise typer.Exit(exit_code(result))


def exit_code(result: RulesResult) -> int:
    """3 when states cannot be asked for; 1 when the engine fails, loses ids, or denies the tables; else 0."""
    if result.expressible is False:
        return EXIT_REFUSED
    denied = any(
        item.code == "ids-lost" or (item.code == "rule-introspected" and item.severity != "info")
        for item in result.findings
    )
    return EXIT_DIFFERENCE if result.states is None or denied else EXIT_GOOD


def _render(result: RulesResult, *, as_json: bool) -> None:
    if as_json:
        from hsforensics.report.schema import to_json

        typer.echo(to_json(result))
        return
    from hsforensics.report.console import console
    from hsforensics.report.rules import print_rules

    print_rules(result, console(sys.stdout))
