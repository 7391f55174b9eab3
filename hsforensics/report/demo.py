"""``demo`` on a terminal: act by act, short. Renders the result; every number in it was computed before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsforensics.report.console import print_wrapped, visible
from hsforensics.results import ChannelRecord, CompareResult, DraftEvalResult, FixConfigResult
from hsforensics.states import State, show_state, show_wiring

if TYPE_CHECKING:
    from rich.console import Console

    from hsforensics.results_demo import DemoAct, DemoResult

_SOURCES = {"bank": "states", "channels": "channels"}
_DIFF_STYLES = {"+": "green", "-": "red"}


def print_demo(result: DemoResult, out: Console) -> None:
    """Print the story, the summary and what to type on one's own files."""
    from rich.text import Text

    serving = "recorded from a real engine" if result.recorded else "predicted; no recording of an engine is here"
    out.print(Text("A drafter with a good training accuracy drafts badly in service.", "bold"))
    out.print(visible(f"files    {result.incident}"), markup=False, soft_wrap=True)
    out.print(f"serving  {serving}", markup=False)
    for number, act in enumerate(result.acts, start=1):
        _print_act(number, act, out)
    out.print()
    for line in result.summary:
        out.print(Text(visible(line), "bold"))
    out.print("\nOn your own files:")
    for command in result.next_commands:
        out.print(f"  {command}", markup=False, soft_wrap=True)
    where = f"in {result.kept}" if result.kept else "in a copy that hsforensics demo --keep DIR leaves you"
    out.print(visible(f"The commands above work {where}."), markup=False, soft_wrap=True)


def _print_act(number: int, act: DemoAct, out: Console) -> None:
    from rich.text import Text

    out.print()
    out.print(Text(f"{number}. {act.title}", "bold"))
    for command in act.commands:
        out.print(Text(visible(f"   $ {command}"), "dim"), soft_wrap=True)
    if isinstance(act.result, DraftEvalResult):
        _print_accuracy(act.result, out)
    elif isinstance(act.result, CompareResult):
        _print_channels(act.result, out)
    else:
        _print_diff(act.result, out)
    print_wrapped(out, act.lesson, indent=3)


def _print_accuracy(result: DraftEvalResult, out: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=True)
    table.add_column("  accuracy fed", no_wrap=True)
    for step in result.runs[0].accuracy:
        table.add_column(f"step {step.step}", justify="right")
    table.add_column("95 % at step 1", justify="right")
    table.add_column("positions", justify="right")
    for run in result.runs:
        first = run.accuracy[0]
        interval = "" if first.interval is None else f"{first.interval[0]:.1%} to {first.interval[1]:.1%}"
        name = Text(f"  {_SOURCES[run.source]} {show_wiring(run.wiring)}")
        table.add_row(name, *(f"{step.value:.1%}" for step in run.accuracy), interval, str(first.positions))
    out.print(table)


def _print_channels(result: CompareResult, out: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("   channel", "claimed", "holds", "distance", "first values of one row"):
        table.add_column(heading, justify="right" if heading == "distance" else "left", no_wrap=True)
    for item in result.channels:
        lied = item.claim is not None and item.status == "mismatched"
        table.add_row(
            Text(visible(f"   {item.label}")),
            "" if item.claim is None else _short(item.claim),
            Text(_holds(item), "red" if lied else "green" if item.state is not None else "yellow"),
            "" if item.distance is None else f"{item.distance:.4f}",
            _values(item.values),
        )
        if item.claimed_reference:
            name = f"     {_short(item.claim)} has" if item.claim is not None else ""
            table.add_row(Text(name, "red"), "", "", "", Text(_values(item.claimed_reference), "red"))
    out.print(table)


def _holds(item: ChannelRecord) -> str:
    if item.state is not None:
        return _short(item.state)
    return "one of 1 to L" if item.identity == "ambiguous" else item.identity


def _short(state: State) -> str:
    return "embedding" if state == 0 else show_state(state)


def _values(values: tuple[float | None, ...]) -> str:
    return " ".join("-" if value is None else f"{value:.3g}" for value in values[:3])


def _print_diff(result: FixConfigResult, out: Console) -> None:
    from rich.text import Text

    for line in result.diff.splitlines():
        out.print(Text("   " + visible(line), _DIFF_STYLES.get(line[:1], "")), soft_wrap=True)
