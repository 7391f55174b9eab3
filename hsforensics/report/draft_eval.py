"""``draft-eval`` on a terminal. Renders the result; every number in it was computed before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsforensics.report.console import print_wrapped
from hsforensics.report.findings import print_findings
from hsforensics.results import AcceptLength, DraftEvalResult, DraftRun, Interval, Provenance, StepAccuracy
from hsforensics.states import show_wiring

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_SOURCES = {"bank": "wiring", "channels": "channels"}
_VARIANTS = {
    "masked": "accuracy where the loss mask is 1",
    "draft_vocab": "argmax over the draft vocabulary alone",
    "full_acc": "right at all steps so far",
    "cond_acc": "the same, of the rows that were right until then",
}
"""The trainers' own variants, by their key in a step: formulas for the eye; ``DraftRun.definitions`` has the whole."""

_ACCURACY = "proposals that are the target's argmax over its full vocabulary; in brackets 95 %, over sequences"
_ACCEPT = "tokens per verify step, bonus token included, replayed where the text is the target's own choice (on policy)"
_WHOLE = "All definitions: docs/draft-eval.md, or --json."
_STEPS_ABREAST = 3  # that fit beside a run's name on a wide terminal; otherwise they are printed one below the other
_WIDE = 104  # columns that three steps with their intervals take


def print_draft_eval(result: DraftEvalResult, out: Console) -> None:
    """Print where the numbers come from, every run's accuracy and accept length with short formulas, and findings."""
    _print_sources(result.provenance, out)
    abreast = len(result.runs[0].accuracy) <= _STEPS_ABREAST and out.width >= _WIDE
    variants = _variants(result.runs)
    legend = "; ".join(f"{name}: {_VARIANTS[name]}" for name in variants)
    _print_table(_accuracy_table(result.runs, abreast=abreast), _ACCURACY, out)
    _print_table(_accept_table(result.runs), _ACCEPT, out)
    if variants:
        _print_table(_trainer_table(result.runs, variants, abreast=abreast), legend, out)
    out.print(_WHOLE, markup=False)
    print_findings(result.findings, out)


def _print_table(table: Table, caption: str, out: Console) -> None:
    """A table with what its numbers are below it."""
    out.print(table)
    print_wrapped(out, caption, indent=2, style="dim")
    out.print()


def _variants(runs: tuple[DraftRun, ...]) -> list[str]:
    """The trainers' variants that have a value."""
    steps = [step for run in runs for step in run.accuracy]
    return [name for name in _VARIANTS if any(step.trainer.get(name) is not None for step in steps)]


def _print_sources(origin: Provenance, out: Console) -> None:
    classes = " > ".join(dict.fromkeys(name for name in (origin.target_wrapper, origin.target_inner) if name))
    lines = [
        ("drafter", str(origin.drafter_path)),
        ("target", f"{origin.target_path} ({classes}, L = {origin.layers}, width {origin.hidden_size})"),
    ]
    if origin.capture_path:
        lines.append(("capture", f"{origin.capture_path} ({origin.engine} {origin.engine_version})"))
    lines += [("dumps", f"{s.path} ({s.producer}, {_samples(s.samples)}, {s.dtype})") for s in origin.dumps]
    lines.append(("forward", f"{origin.dtype} on {origin.device}"))
    for name, text in lines:
        out.print(f"{name:<9} {text}", markup=False)
    out.print()


def _accuracy_table(runs: tuple[DraftRun, ...], *, abreast: bool) -> Table:
    title, steps = "accuracy (full vocabulary)", runs[0].accuracy
    if not abreast:
        table = _table(title, "step", "accuracy", "rows")
        for run in runs:
            for step in run.accuracy:
                table.add_row(_name(run), str(step.step), _accuracy(step), str(step.positions))
        return table
    table = _table(title, *(f"step {step.step}" for step in steps), "rows")
    for run in runs:
        table.add_row(_name(run), *(_accuracy(step) for step in run.accuracy), str(run.tokens))
    return table


def _accept_table(runs: tuple[DraftRun, ...]) -> Table:
    table = _table("accept length", "predicted", "verify steps", "on policy")
    for run in runs:
        table.add_row(_name(run), _accept(run.accept_length), *_accept_facts(run.accept_length))
    return table


def _trainer_table(runs: tuple[DraftRun, ...], known: list[str], *, abreast: bool) -> Table:
    """The trainers' own variants: one line for each run and variant, or for each run and step."""
    title, steps = "as trainers count it", runs[0].accuracy
    if not abreast:
        table = _table(title, "step", *known)
        for run in runs:
            for step in run.accuracy:
                table.add_row(_name(run), str(step.step), *(_share(step, name) for name in known))
        return table
    table = _table(title, *(f"step {step.step}" for step in steps))
    for run in runs:
        for name in known:
            table.add_row(_name(run).append(f" {name}"), *(_share(step, name) for step in run.accuracy))
    return table


def _table(title: str, *headings: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column(title, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _name(run: DraftRun) -> Text:
    from rich.text import Text

    return Text(f"{_SOURCES[run.source]} {show_wiring(run.wiring)}")


def _accuracy(step: StepAccuracy) -> str:
    return f"{step.value:.3f}{_interval(step.interval, 3)}"


def _share(step: StepAccuracy, variant: str) -> str:
    value = step.trainer.get(variant)
    return "" if value is None else f"{value:.3f}"


def _samples(count: int) -> str:
    return "1 sample" if count == 1 else f"{count} samples"


def _accept(found: AcceptLength) -> str:
    return "unknown" if found.value is None else f"{found.value:.2f}{_interval(found.interval, 2)}"


def _accept_facts(found: AcceptLength) -> tuple[str, str]:
    return str(found.verify_steps), f"{found.on_policy:.1%}"


def _interval(interval: Interval | None, digits: int) -> str:
    return "" if interval is None else f" ({interval[0]:.{digits}f} to {interval[1]:.{digits}f})"
