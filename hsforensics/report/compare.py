"""``compare`` on a terminal and as CSV. Renders the result; every number in it was computed before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from hsforensics.report.console import visible
from hsforensics.report.findings import print_findings
from hsforensics.results import ChannelRecord, CompareResult, Provenance
from hsforensics.rules.explain import what_is_served
from hsforensics.states import show_state, show_wiring

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_TIERS = {
    "files": "the target's files alone: say what is, or is not, the embedding or postnorm; nothing else",
    "bank": "a bank of reference states: proves what the dump holds; says nothing of what is served",
    "live": "a live capture: proves what the dump holds and what the engine serves",
}
_WIDE = 112  # columns that the whole channel table takes
_VERDICT_STYLES = {"aligned": "bold green", "misaligned": "bold red", "undecided": "bold yellow"}
_STATUS_STYLES = {"matched": "green", "mismatched": "red", "ambiguous": "yellow", "unmatched": "yellow"}


def print_compare(result: CompareResult, out: Console) -> None:
    """Print channels, values side by side, wirings, findings and the verdict with the number of errors."""
    _print_sources(result, out)
    _print_verdict(result, out)
    out.print()
    out.print(_channel_table(result.channels) if out.width >= _WIDE else _narrow_table(result.channels))
    if any(item.values for item in result.channels):
        out.print(_value_table(result.channels))
    out.print(f"trained wiring    {show_wiring(result.trained_wiring)}", markup=False)
    out.print(f"served wiring     {_served_line(result)}", markup=False)
    if result.predicted is not None:
        out.print(f"predicted wiring  {_predicted_line(result)}", markup=False)
    if result.offsets is not None:
        shown = ", ".join("?" if offset is None else f"{offset:+d}" for offset in result.offsets)
        out.print(f"offset            [{shown}]", markup=False)
    _print_groups(result, out)
    print_findings(result.findings, out)
    out.print()
    _print_verdict(result, out)


def _print_verdict(result: CompareResult, out: Console) -> None:
    """The first line after the sources, and once more the last line of all."""
    from rich.text import Text

    seen = f"{plural(result.tokens, 'token')} of {plural(result.sequences, 'sequence')}"
    why = f"{_why_undecided(result)}; " if result.verdict == "undecided" else ""
    errors = sum(item.severity == "error" for item in result.findings)
    known = {"trained": result.trained_wiring, "served": result.served_wiring}
    wirings = ", ".join(f"{side} {show_wiring(wiring)}" for side, wiring in known.items() if wiring is not None)
    tail = "; ".join(filter(None, (f" ({why}{seen})", plural(errors, "error") if errors else "", wirings)))
    out.print(Text.assemble("Verdict: ", (result.verdict, _VERDICT_STYLES[result.verdict]), tail))


def _why_undecided(result: CompareResult) -> str:
    if result.served_wiring is None:
        return "served states not measured" if result.tier != "live" else "served states not known"
    if result.trained_wiring is None or None in (*result.trained_wiring, *result.served_wiring):
        return "not every state is known"
    return "too little, or contradictory, evidence"


def _print_groups(result: CompareResult, out: Console) -> None:
    """What explains a channel that is no state, how rows were aligned, and groups of a mixed set."""
    for item in result.channels:
        if item.explanation:
            share = "" if item.explained is None else f" ({item.explained:.0%} of the misfit explained)"
            out.print(f"explained         {item.side} {visible(item.label)}: {item.explanation}{share}", markup=False)
    if set(result.alignments) - {"same"}:
        shown = ", ".join(f"{how} ({plural(count, 'sample')})" for how, count in result.alignments.items())
        out.print(f"rows aligned by   {shown}", markup=False)
    if len(result.groups) > 1:
        for group in result.groups:
            names = visible(", ".join(group.names))
            out.print(
                f"group             [{', '.join(group.holds)}]: {plural(group.samples, 'sample')} ({names})",
                markup=False,
            )


def _print_sources(result: CompareResult, out: Console) -> None:
    origin = result.provenance
    for source in origin.dumps:
        labels = f", labels from {source.claim_source}" if source.claim_source else ""
        facts = f"{source.producer}, {plural(source.samples, 'sample')}, {source.dtype or 'dtype not told'}{labels}"
        out.print(visible(f"dumps     {source.path} ({facts})"), markup=False)
    if origin.capture_path:
        engine = " ".join(part for part in (origin.engine, origin.engine_version) if part)
        out.print(visible(f"capture   {origin.capture_path} ({engine}, {origin.dtype})"), markup=False)
    out.print(visible(f"target    {_target_line(origin)}"), markup=False)
    out.print(f"evidence  {_TIERS[result.tier]}\n", markup=False)


def _target_line(origin: Provenance) -> str:
    classes = [name for name in dict.fromkeys((origin.target_wrapper, origin.target_inner)) if name]
    return f"{origin.target_path or '?'} ({' > '.join(classes)}, L = {origin.layers}, width {origin.hidden_size})"


def _channel_table(channels: Sequence[ChannelRecord]) -> object:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("side", "channel", "role", "claimed", "holds", "identity", "status"):
        table.add_column(heading, no_wrap=heading not in ("claimed", "holds"))
    for heading in ("dist", "runner-up", "votes", "norm"):
        table.add_column(heading, justify="right", no_wrap=True)
    for item in channels:
        table.add_row(
            item.side,
            Text(visible(item.label)),
            item.role,
            "" if item.claim is None else show_state(item.claim),
            _holds(item),
            item.identity,
            _status(item),
            _number(item.distance),
            "" if item.runner_up is None else f"{_number(item.runner_up)} ({item.runner_up_state})",
            "" if item.votes is None else f"{item.votes:.1%}",
            _number(item.norm),
        )
    return table


def _narrow_table(channels: Sequence[ChannelRecord]) -> object:
    """The same without what a tired reader misses least, for terminals of 80 columns."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("channel", "claimed", "holds", "status"):
        table.add_column(heading, no_wrap=True)
    for heading in ("dist", "next", "votes"):
        table.add_column(heading, justify="right", no_wrap=True)
    for item in channels:
        next_best = "" if item.runner_up is None else f"{item.runner_up:.2g} ({str(item.runner_up_state)[:4]})"
        votes = "" if item.votes is None else f"{item.votes:.0%}"
        claimed, holds = ("embedding" if state == 0 else show_state(state) for state in (item.claim, item.state))
        named = holds if item.state is not None else _holds(item)
        distance = "-" if item.distance is None else f"{item.distance:.2g}"
        claim = claimed if item.claim is not None else ""
        table.add_row(Text(visible(item.label)), claim, named, _status(item), distance, next_best, votes)
    return table


def _status(item: ChannelRecord) -> Text:
    from rich.text import Text

    if item.against == "nothing" and item.identity in ("exact", "match"):
        return Text("no claim")
    return Text(item.status, style=_STATUS_STYLES.get(item.status, "red"))


def _holds(item: ChannelRecord) -> str:
    if item.state is None and item.identity == "ambiguous":
        return "1 to L, or none"
    return f"{'' if _is_certain(item) else 'nearest '}{show_state(item.state)}"


def _is_certain(item: ChannelRecord) -> bool:
    return item.state is None or item.identity in ("exact", "match")


def _value_table(channels: Sequence[ChannelRecord]) -> object:
    """The first values of one row, a channel above the state it was found to be: what people compare by eye."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, title="\nfirst values of one row", title_justify="left", title_style="")
    table.add_column("", no_wrap=True)
    for _ in range(5):
        table.add_column("", justify="right", no_wrap=True)
    for item in channels:
        if item.values:
            table.add_row(Text(f"{visible(item.label)}, row {item.row}"), *map(_number, item.values))
        if item.reference:
            certain = _is_certain(item)
            name = f"  {'holds' if certain else 'nearest'}: {show_state(item.state)}"
            table.add_row(Text(name), *map(_number, item.reference), style="green" if certain else "yellow")
        if item.claimed_reference:
            name = f"  claimed: {show_state(item.claim)}"
            table.add_row(Text(name), *map(_number, item.claimed_reference), style="red")
    return table


def _served_line(result: CompareResult) -> str:
    return "not measured" if result.served_wiring is None else show_wiring(result.served_wiring)


def _predicted_line(result: CompareResult) -> str:
    predicted = result.predicted
    if predicted is None:
        return ""
    measured = "; not measured" if result.served_wiring is None else ""
    ids = "default ids" if predicted.ids is None else f"ids {list(predicted.ids)}"
    states = "none" if predicted.states is None else show_wiring(predicted.states)
    why = f"; {what_is_served(predicted)}" if predicted.states is None else ""
    return f"{states} ({predicted.engine}, {predicted.architecture}, {ids}{measured}{why})"


def plural(count: int, noun: str) -> str:
    """A count with its noun: ``1 sample``, ``3 samples``."""
    return f"{count} {noun}{'s'[: count != 1]}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def compare_csv(result: CompareResult) -> str:
    """The channel records as CSV, one line each; lists are joined with spaces."""
    import pandas as pd

    rows = [{key: _cell(value) for key, value in asdict(item).items()} for item in result.channels]
    return str(pd.DataFrame(rows).to_csv(index=False))


def _cell(value: object) -> object:
    if isinstance(value, tuple):
        return " ".join("" if item is None else repr(item) for item in value)
    return value
