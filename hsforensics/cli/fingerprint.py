"""``hsforensics fingerprint``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def fingerprint_command(
    path: Annotated[Path, typer.Argument(help="Training dumps, or a capture.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write; must not exist.")],
    salt: Annotated[
        str | None,
        typer.Option(envvar="HSF_SALT", help="Secret to seal the file under; both sides need the same one."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the projection; both sides need the same one.")] = 0,
    max_samples: Annotated[int, typer.Option(min=1, help="Samples to read at most.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
) -> None:
    """Write some 10 kB for each channel and sample that compare takes in place of dumps or of a capture.

    Move this file instead of the tensors: dumps of a training cluster can be judged against a server elsewhere.

    Exit codes: 0 written; 3 refused, nothing was written.
    """
    from hsforensics.flows.fingerprint import fingerprint

    result = fingerprint(path, out, salt=salt, seed=seed, max_samples=max_samples)
    if as_json:
        from hsforensics.report.schema import to_json

        typer.echo(to_json(result))
    else:
        from hsforensics.report.console import console
        from hsforensics.report.fingerprint import print_fingerprint

        print_fingerprint(result, console(sys.stdout))
