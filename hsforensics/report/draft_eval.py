"""``draft-eval`` on a terminal. Renders the result; every number in it was computed before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsforensics.report.findings import print_findings
from hsforensics.results import AcceptLength, DraftEvalResult, DraftRun, Interval, Provenance
from hsforensics.states import show_wiring

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_SOURCES = {"bank": "wiring", "channels": "channels"}
_VARIANTS = ("masked", "draft_vocab", "full_acc", "cond_acc")


def print_draft_eval(result: DraftEvalResult, out: Console) -> None:
    """Print where the numbers come from, accuracy and accept length of every run, findings and definitions."""
    _print_sources(result.provenance, out)
    out.print(_accuracy_table(result.runs))
    out.print()
    out.print(_accept_table(result.runs))
    out.print()
    out.print(_trainer_table(result.runs))
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
    lines += [("dumps", f"{s.path} ({s.producer}, {s.samples} samples, {s.dtype})") for s in origin.dumps]
    lines.append(("forward", f"{origin.dtype} on {origin.device}"))
    for name, text in lines:
        out.print(f"{name:<9} {text}", markup=False)
    out.print()


def _accuracy_table(runs: tuple[DraftRun, ...]) -> Table:
    table = _table("accuracy (full vocabulary)", *(f"step {step.step}" for step in runs[0].accuracy), "rows")
    for run in runs:
        cells = [f"{step.value:.3f}{_interval(step.interval, 3)}" for step in run.accuracy]
        table.add_row(_name(run), *cells, str(run.tokens))
    return table


def _accept_table(runs: tuple[DraftRun, ...]) -> Table:
    table = _table("accept length (bonus token included)", "predicted", "verify steps", "on policy")
    for run in runs:
        table.add_row(_name(run), _accept(run.accept_length), *_accept_facts(run.accept_length))
    return table


def _trainer_table(runs: tuple[DraftRun, ...]) -> Table:
    """The trainers' own variants: one line for each run and variant that has a value."""
    table = _table("as trainers count it", *(f"step {step.step}" for step in runs[0].accuracy))
    for run in runs:
        for variant in _VARIANTS:
            values = [step.trainer.get(variant) for step in run.accuracy]
            if any(value is not None for value in values):
                table.add_row(_name(run).append(f" {variant}"), *("" if v is None else f"{v:.3f}" for v in values))
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


def _accept(found: AcceptLength) -> str:
    return "unknown" if found.value is None else f"{found.value:.2f}{_interval(found.interval, 2)}"


def _accept_facts(found: AcceptLength) -> tuple[str, str]:
    return str(found.verify_steps), f"{found.on_policy:.1%}"


def _interval(interval: Interval | None, digits: int) -> str:
    return "" if interval is None else f" ({interval[0]:.{digits}f} to {interval[1]:.{digits}f})"
