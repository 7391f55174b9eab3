"""``fix-config`` on a terminal: the diff, why each value changes, states before and after, and what to type next."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from hsforensics.report.console import visible
from hsforensics.report.findings import print_findings
from hsforensics.results import FixConfigResult, Prediction
from hsforensics.states import show_wiring

if TYPE_CHECKING:
    from rich.console import Console

_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def print_fix_config(result: FixConfigResult, out: Console) -> None:
    """Print the whole result."""
    _print_line(out, "config", result.config_path)
    _print_line(out, "engine", f"{result.before.engine}, {result.before.architecture}")
    _print_line(out, "trained", show_wiring(result.wiring))
    _print_line(out, "before", _served(result.before))
    if result.edits:
        _print_line(out, "after", _served(result.after))
        out.print()
        _print_diff(result.diff, out)
        _print_reasons(result, out)
    print_findings(result.findings, out)
    out.print()
    out.print(outcome(result), markup=False, soft_wrap=True)


def outcome(result: FixConfigResult) -> str:
    """What was done, or what to do next: the last lines of the report."""
    if result.written:
        undo = f"mv {shlex.quote(str(result.backup))} {shlex.quote(result.config_path)}"
        written = visible(f"Written and read back. Undo: {undo}")
        return f"{written}\nNext: restart the engine, capture it, and compare again."
    if result.pending:
        return f"Nothing is written yet. Next: {_write_command(result)}"
    return "Nothing to do."


def check_line(result: FixConfigResult) -> str:
    """The one line of ``--check``."""
    if not result.pending:
        return f"{result.config_path}: nothing to do"
    edits = "; ".join(f"{edit.key}: {edit.before or 'absent'} -> {edit.after}" for edit in result.edits)
    return visible(f"{result.config_path}: change pending for {result.after.engine}: {edits}")


def _print_line(out: Console, name: str, value: str) -> None:
    out.print(f"{name:<12}{visible(value)}", markup=False, soft_wrap=True)


def _print_diff(diff: str, out: Console) -> None:
    from rich.text import Text

    for line in diff.removesuffix("\n").split("\n"):
        out.print(Text(visible(line.removesuffix("\r")), _DIFF_STYLES.get(line[:1], "")), soft_wrap=True)


def _print_reasons(result: FixConfigResult, out: Console) -> None:
    for edit in result.edits:
        out.print()
        change = f"{edit.key}: {edit.before or 'absent'} -> {edit.after}"
        out.print(visible(change), markup=False, soft_wrap=True)
        out.print(f"  because {edit.reason}", markup=False, soft_wrap=True)


def _served(prediction: Prediction) -> str:
    ids = "no ids, its default" if prediction.ids is None else f"ids {list(prediction.ids)}"
    states = "serves nothing: it fails" if prediction.states is None else f"serves {show_wiring(prediction.states)}"
    return f"{states} ({ids}; predicted)"


def _write_command(result: FixConfigResult) -> str:
    """The same command line with ``--write``, when the result came from one."""
    words = result.provenance.command
    if "fix-config" not in words:
        return "the same call with write=True"
    return shlex.join(["hsforensics", *words[words.index("fix-config") :], "--write"])
