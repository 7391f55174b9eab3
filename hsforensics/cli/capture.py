"""``hsforensics capture``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hsforensics.errors import EXIT_DIFFERENCE, EXIT_GOOD, HsfError
from hsforensics.results import CaptureResult

if TYPE_CHECKING:
    from hsforensics.flows.capture import Progress


class Engine(StrEnum):
    """What runs the target."""

    transformers = "transformers"
    sglang = "sglang"


class Dtype(StrEnum):
    """dtype that the target runs in."""

    bf16 = "bf16"
    fp32 = "fp32"


def capture_command(
    dumps: Annotated[Path, typer.Argument(help="Training dumps, whose very tokens are run: a directory, or a file.")],
    target: Annotated[Path, typer.Option(help="Directory of the target model.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The capture to write: a directory that does not exist.")],
    engine: Annotated[Engine, typer.Option(help="What runs the target.")] = Engine.transformers,
    dtype: Annotated[Dtype, typer.Option(help="dtype that the target runs in.")] = Dtype.bf16,
    device: Annotated[str, typer.Option(help="Where the target runs: auto, cpu, cuda, cuda:1, ...")] = "auto",
    middle: Annotated[
        bool, typer.Option("--middle", help="Also store the stream between attention and MLP of each layer.")
    ] = False,
    max_samples: Annotated[int | None, typer.Option(min=1, help="Samples to capture at most.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Rows of each sample to capture at most.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a capture that lies there already.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
) -> None:
    """Run the tokens of training dumps through the target and store every state: the alphabet for compare.

    Exit codes: 0 captured; 1 captured, but some files of the dumps were unreadable; 3 refused, nothing was written.
    """
    if engine is Engine.sglang:
        message = "sglang cannot be captured by this version yet: only transformers can"
        raise HsfError("usage", "--engine", message, "leave --engine out")
    from hsforensics.flows.capture import capture_reference

    with _progress() as progress:
        result = capture_reference(
            dumps,
            target,
            out,
            dtype=dtype.value,
            device=device,
            middle=middle,
            max_samples=max_samples,
            max_tokens=max_tokens,
            force=force,
            progress=progress,
        )
    _render(result, as_json=as_json)
    raise typer.Exit(exit_code(result))


def exit_code(result: CaptureResult) -> int:
    """0 captured; 1 when a finding is an error."""
    return EXIT_DIFFERENCE if any(item.severity == "error" for item in result.findings) else EXIT_GOOD


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """A progress bar on stderr where that is a terminal; nothing otherwise."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("capturing", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _render(result: CaptureResult, *, as_json: bool) -> None:
    if as_json:
        from hsforensics.report.schema import to_json

        typer.echo(to_json(result))
    else:
        from hsforensics.report.capture import print_capture
        from hsforensics.report.console import console

        print_capture(result, console(sys.stdout))
