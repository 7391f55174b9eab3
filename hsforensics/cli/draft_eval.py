"""``hsforensics draft-eval``."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hsforensics.cli.options import Device, Dtype, parse_wiring_option
from hsforensics.errors import EXIT_DIFFERENCE, EXIT_GOOD
from hsforensics.results import DraftEvalResult
from hsforensics.states import State


class Feed(StrEnum):
    """Which token later steps embed."""

    text = "text"
    own = "own"


def draft_eval_command(
    drafter: Annotated[Path, typer.Argument(help="Directory of the EAGLE-3 drafter: config.json and weights.")],
    target: Annotated[Path, typer.Option(help="Directory of the target model.")],
    data: Annotated[Path, typer.Option(help="A capture (a bank of states), or training dumps.")],
    wiring: Annotated[
        list[str] | None,
        typer.Option(
            help="States to feed in fc order, such as '3,31,59'; needs a capture. Repeat it for several runs."
        ),
    ] = None,
    channels: Annotated[
        list[str] | None,
        typer.Option(
            help="Channels of the dump to feed in fc order, by number, such as '0,1,2'. Repeat it for several runs."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Draft steps to evaluate.")] = 3,
    target_channel: Annotated[
        int | None,
        typer.Option(min=0, help="Channel of the dump that holds the target's last state.", show_default="the last"),
    ] = None,
    feed: Annotated[
        Feed,
        typer.Option(help="What step k >= 2 embeds: the text's token (teacher forced), or the drafter's own proposal."),
    ] = Feed.text,
    dtype: Annotated[Dtype, typer.Option(help="dtype of the drafter's forward.")] = Dtype.fp32,
    device: Annotated[Device, typer.Option(help="Where the drafter runs; auto takes CUDA if present.")] = Device.auto,
    max_sequences: Annotated[int | None, typer.Option(min=1, help="Sequences to read at most.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap over sequences.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
) -> None:
    """Measure how well a drafter drafts when it is fed these states: accuracy by step, and accept length.

    With a capture, --wiring names states that the target itself computed: a wiring with a much higher accuracy than
    others shows those to be gross miswirings. It does not prove its own states to the last one: states one apart serve
    a drafter about equally well, and only values (hsforensics compare) tell them apart. A best wiring is only named
    with at least 8 distinct sequences and a lead that is certainly more than 0.02.

    With dumps, --channels names channels by number, since their labels prove nothing: a high accuracy there proves the
    drafter, not the wiring. (In the incident behind this tool, 76.9 % were measured on dump channels under wrong
    labels.)

    Exit codes: 0 evaluated; 1 evaluated, with a finding of severity error; 3 nothing could be evaluated, or refused.
    """
    runs, numbers = [_wiring(text) for text in wiring or ()], [_channels(text) for text in channels or ()]
    from hsforensics.flows.draft_eval import draft_eval

    result = draft_eval(
        drafter,
        target,
        data,
        wirings=runs,
        channels=numbers,
        steps=steps,
        target_channel=target_channel,
        feed=feed.value,
        dtype=dtype.value,
        device=device.value,
        seed=seed,
        max_sequences=max_sequences,
    )
    _render(result, as_json=as_json)
    raise typer.Exit(exit_code(result))


def exit_code(result: DraftEvalResult) -> int:
    """0 evaluated; 1 with a finding of severity error."""
    return EXIT_DIFFERENCE if any(item.severity == "error" for item in result.findings) else EXIT_GOOD


def _wiring(text: str) -> tuple[State, ...]:
    return parse_wiring_option(text, "--wiring") or ()


def _channels(text: str) -> tuple[int, ...]:
    items = [item.strip() for item in text.split(",")]
    if not all(item.isdecimal() for item in items):
        raise typer.BadParameter(f"{text!r} is no list of channel numbers such as '0,1,2'", param_hint="--channels")
    return tuple(int(item) for item in items)


def _render(result: DraftEvalResult, *, as_json: bool) -> None:
    if as_json:
        from hsforensics.report.schema import to_json

        typer.echo(to_json(result))
    else:
        from hsforensics.report.console import console
        from hsforensics.report.draft_eval import print_draft_eval

        print_draft_eval(result, console(sys.stdout))
