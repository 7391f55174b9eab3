"""``draft-eval`` on a terminal. Renders the result; every number in it was computed before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsforensics.report.findings import print_findings
from hsforensics.results import AcceptLength, DraftEvalResult, DraftRun, Interval, Provenance, StepAccuracy
from hsforensics.states import show_wiring

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_SOURCES = {"bank": "wiring", "channels": "channels"}
_VARIANTS = ("masked", "draft_vocab", "full_acc", "cond_acc")
_STEPS_ABREAST = 3  # that fit beside a run's name on a wide terminal; otherwise they are printed one below the other
_WIDE = 104  # columns that three steps with their intervals take


def print_draft_eval(result: DraftEvalResult, out: Console) -> None:
    """Print where the numbers come from, accuracy and accept length of every run, findings and definitions."""
    _print_sources(result.provenance, out)
    abreast = len(result.runs[0].accuracy) <= _STEPS_ABREAST and out.width >= _WIDE
    out.print(_accuracy_table(result.runs, abreast=abreast))
    out.print()
    out.print(_accept_table(result.runs))
    out.print()
    out.print(_trainer_table(result.runs, abreast=abreast))
    print_findings(result.findings, out)
    out.print("\ndefinitions")
    out.print(_definition_table(result.runs[0].definitions))


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
    table = _table("accept length (bonus token included)", "predicted", "verify steps", "on policy")
    for run in runs:
        table.add_row(_name(run), _accept(run.accept_length), *_accept_facts(run.accept_length))
    return table


def _trainer_table(runs: tuple[DraftRun, ...], *, abreast: bool) -> Table:
    """The trainers' own variants that have a value: one line for each run and variant, or for each run and step."""
    title, steps = "as trainers count it", runs[0].accuracy
    known = [name for name in _VARIANTS if any(step.trainer.get(name) is not None for r in runs for step in r.accuracy)]
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


def _definition_table(definitions: dict[str, str]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for name, text in definitions.items():
        table.add_row(Text(name), Text(text))
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
