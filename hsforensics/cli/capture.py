"""``hsforensics capture``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from hsforensics.cli.options import Dtype
from hsforensics.errors import EXIT_DIFFERENCE, EXIT_GOOD, HsfError
from hsforensics.results import CaptureResult

if TYPE_CHECKING:
    from hsforensics.flows.capture_inputs import Progress


class Engine(StrEnum):
    """What runs the target."""

    transformers = "transformers"
    sglang = "sglang"


class Algorithm(StrEnum):
    """Speculative decoding that the engine runs."""

    eagle3 = "EAGLE3"
    none = "none"


def capture_command(
    dumps: Annotated[Path, typer.Argument(help="Training dumps, whose very tokens are run: a directory, or a file.")],
    target: Annotated[Path, typer.Option(help="Directory of the target model.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The capture to write: a directory that does not exist.")],
    engine: Annotated[Engine, typer.Option(help="What runs the target.")] = Engine.transformers,
    draft: Annotated[Path | None, typer.Option(help="Directory of the drafter that sglang serves.")] = None,
    algorithm: Annotated[
        Algorithm, typer.Option(help="What sglang runs; with none it serves no drafter.")
    ] = Algorithm.eagle3,
    engine_python: Annotated[
        Path, typer.Option(help="Python interpreter that has sglang.", show_default="this one")
    ] = Path(sys.executable),
    engine_arg: Annotated[
        list[str] | None,
        typer.Option(help="One more argument for sglang: --engine-arg=ARG, such as --quantization=fp8."),
    ] = None,
    tp: Annotated[int, typer.Option(min=1, help="Tensor-parallel size of sglang.")] = 1,
    every_rank: Annotated[
        bool, typer.Option("--every-rank", help="Also store what the other ranks serve; implies --middle.")
    ] = False,
    new_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens that sglang generates; with more than 1, its accept length is shown.")
    ] = 1,
    dtype: Annotated[
        Dtype | None, typer.Option(help="dtype that the target runs in.", show_default="bf16; sglang chooses itself")
    ] = None,
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

    With --engine sglang, a real SGLang serves the drafter meanwhile, and what it feeds to the drafter is stored too.

    Exit codes: 0 captured; 1 captured, but with a finding of severity error; 3 refused, nothing was written.
    """
    with _progress() as progress:
        common = _Common(max_samples, max_tokens, force, middle, device, progress)
        if engine is Engine.sglang:
            live = _Live(draft, algorithm.value, engine_python, tuple(engine_arg or ()), tp, every_rank, new_tokens)
            result = _capture_sglang(dumps, target, out, dtype, live, common)
        elif draft or engine_arg or tp > 1 or every_rank or new_tokens > 1:
            option = "--draft, --engine-arg, --tp, --every-rank and --new-tokens"
            raise HsfError("usage", "capture", f"{option} are for a live engine", "add --engine sglang")
        else:
            result = _capture_transformers(dumps, target, out, dtype, common)
    _render(result, as_json=as_json)
    raise typer.Exit(exit_code(result))


class _Common(NamedTuple):
    """Options of every engine, in the flows' names."""

    max_samples: int | None
    max_tokens: int | None
    force: bool
    middle: bool
    device: str
    progress: Progress | None


class _Live(NamedTuple):
    """Options of a live engine, in the flow's names."""

    drafter: Path | None
    algorithm: Literal["EAGLE3", "none"]
    engine_python: Path
    engine_args: tuple[str, ...]
    tp: int
    every_rank: bool
    new_tokens: int


def _capture_transformers(dumps: Path, target: Path, out: Path, dtype: Dtype | None, common: _Common) -> CaptureResult:
    from hsforensics.flows.capture import capture_reference

    return capture_reference(dumps, target, out, dtype=(dtype or Dtype.bf16).value, **common._asdict())


def _capture_sglang(
    dumps: Path, target: Path, out: Path, dtype: Dtype | None, live: _Live, common: _Common
) -> CaptureResult:
    from hsforensics.flows.capture_live import capture_live

    chosen: Literal["bf16", "fp32"] | None = dtype.value if dtype else None
    return capture_live(dumps, target, out=out, dtype=chosen, **live._asdict(), **common._asdict())


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

    bar = Bar(console=Console(stderr=True), transient=True)
    task = bar.add_task("capturing", total=None)

    def show(done: int, total: int) -> None:
        bar.start()  # not before the first word of progress: refusals come without a bar
        bar.update(task, completed=done, total=total)

    try:
        yield show
    finally:
        bar.stop()


def _render(result: CaptureResult, *, as_json: bool) -> None:
    if as_json:
        from hsforensics.report.schema import to_json

        typer.echo(to_json(result))
    else:
        from hsforensics.report.capture import print_capture
        from hsforensics.report.console import console

        print_capture(result, console(sys.stdout))
