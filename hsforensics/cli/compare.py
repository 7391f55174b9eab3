"""``hsforensics compare``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hsforensics.cli.options import Device, parse_wiring_option
from hsforensics.errors import EXIT_DIFFERENCE, EXIT_GOOD, EXIT_REFUSED
from hsforensics.results import CompareResult


def compare_command(
    dumps: Annotated[Path, typer.Argument(help="Training dumps: a directory, one file of it, or a fingerprint.")],
    capture: Annotated[
        Path | None,
        typer.Argument(
            help="Capture of the same tokens (a reference bank, or a live engine's), or a fingerprint of it."
        ),
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Directory of the target model.")] = None,
    draft: Annotated[
        Path | None, typer.Option(help="Directory of the drafter: its fc settles which channels are aux.")
    ] = None,
    claims: Annotated[
        str | None, typer.Option(help="What somebody says the channels hold, such as 'embedding,3,31,59'.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Engine to predict for from the drafter's config: 'sglang==0.5.16'.")
    ] = None,
    architecture: Annotated[
        str | None, typer.Option(help="Model class to predict for; the target's own by default.")
    ] = None,
    introspect: Annotated[
        str | None,
        typer.Option(metavar="<path>", help="Read SGLang's id rule from its own code, see 'hsforensics rules --help'."),
    ] = None,
    repeat: Annotated[
        Path | None, typer.Option(help="A second capture of the same tokens by the same engine: measures its noise.")
    ] = None,
    rank: Annotated[
        list[Path] | None, typer.Option(help="Capture of another tensor-parallel rank; repeat it for each.")
    ] = None,
    salt: Annotated[
        str | None, typer.Option(envvar="HSF_SALT", help="Secret that fingerprints were made under.")
    ] = None,
    max_samples: Annotated[int, typer.Option(min=1, help="Samples to read at most.")] = 64,
    device: Annotated[Device, typer.Option(help="Where distances are computed.")] = Device.auto,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the channel records as CSV.")] = False,
) -> None:
    """Say which states a dump holds, which ones an engine serves, and whether they agree.

    Evidence, cheapest first: with --target alone it can tell whether a channel is the embedding or postnorm; with a
    bank it names every state; with a live capture it also names what is served. Labels are shown as claims only.

    Fewer than 8 tokens, or requests that were served otherwise, are never aligned; a finding says why.

    Exit codes: 0 aligned; 1 misaligned, or a finding of severity error whatever the verdict; 3 undecided without any
    error, or nothing could be compared.
    """
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    from hsforensics.flows.compare import compare

    result = compare(
        dumps,
        capture,
        target=target,
        drafter=draft,
        claims=parse_wiring_option(claims, "--claims"),
        engine=engine,
        architecture=architecture,
        introspect=introspect,
        repeat=repeat,
        ranks=tuple(rank or ()),
        salt=salt,
        max_samples=max_samples,
        device=device.value,
        seed=seed,
    )
    _render(result, as_json=as_json, as_csv=as_csv)
    raise typer.Exit(exit_code(result))


def exit_code(result: CompareResult) -> int:
    """0 aligned without error findings; 1 misaligned or an error finding; 3 undecided."""
    if result.verdict == "misaligned" or any(item.severity == "error" for item in result.findings):
        return EXIT_DIFFERENCE
    return EXIT_GOOD if result.verdict == "aligned" else EXIT_REFUSED


def _render(result: CompareResult, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        from hsforensics.report.schema import to_json

        typer.echo(to_json(result))
    elif as_csv:
        from hsforensics.report.compare import compare_csv

        typer.echo(compare_csv(result), nl=False)
    else:
        from hsforensics.report.compare import print_compare
        from hsforensics.report.console import console

        print_compare(result, console(sys.stdout))
