"""``fix-config`` on a terminal: the diff, why each value changes, states before and after, and what to type next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsforensics.flows.known import to_measure
from hsforensics.report.console import print_path, print_value, print_wrapped, visible
from hsforensics.report.findings import print_commands, print_findings
from hsforensics.results import FixConfigResult, Prediction, ServedChange
from hsforensics.results_config import PermuteResult, UndoResult
from hsforensics.rules.explain import what_is_served
from hsforensics.shell import path_word
from hsforensics.states import show_wiring

if TYPE_CHECKING:
    from rich.console import Console

_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_NO_CHANGE = {False: "Nothing to do.", True: "Nothing to write, but see the findings of severity error."}


def print_fix_config(result: FixConfigResult, out: Console) -> None:
    """Print the whole result."""
    print_path(out, "config", result.config_path)
    print_value(out, "trained", show_wiring(result.wiring))
    for served in (ServedChange(result.before, result.after), *result.others):
        print_value(out, "engine", f"{served.before.engine}, {served.before.architecture}")
        print_value(out, "before", _served(served.before))
        if result.edits:
            print_value(out, "after", _served(served.after))
    if result.edits:
        out.print()
        _print_diff(result.diff, out)
        _print_reasons(result, out)
    print_findings(result.findings, out)
    out.print()
    out.print(outcome(result), markup=False, soft_wrap=True)
    print_commands(result.next_commands, out)


def print_undo(result: UndoResult, out: Console) -> None:
    """Print what an undo changed."""
    print_path(out, "config", result.config_path)
    print_path(out, "restored", result.restored)
    print_path(out, "kept", f"{result.kept}, with the bytes until now")
    if result.diff:
        out.print()
        _print_diff(result.diff, out)
    out.print("Restored. Next: restart the engine.", markup=False)


def print_permuted(result: PermuteResult, out: Console) -> None:
    """Print what a permutation wrote, and how it was proved."""
    print_path(out, "written", result.output)
    print_value(out, "trained", show_wiring(result.trained))
    print_value(out, "now takes", show_wiring(result.wiring))
    for prediction in result.predicted:
        print_value(out, "engine", f"{prediction.engine}, {prediction.architecture}: {_served(prediction)}")
    print_value(out, "changed", ", ".join(result.tensors))
    ran = "the whole drafter, two steps" if result.outputs_through == "drafter" else "fc and the norms before it"
    proof = f"all blocks bit-equal; {ran}, on {result.outputs_rows} random rows: outputs differ by at most"
    print_value(out, "proof", f"{proof} {result.outputs_difference:.1e} of the largest")
    print_findings(result.findings, out)


def outcome(result: FixConfigResult) -> str:
    """What was done, or what to do next: the last lines of the report."""
    if result.output:
        written = visible(f"Written: {result.output}; the drafter itself is untouched.")
        return f"{written}\n{_then(result, 'serve it')}"
    if result.written:
        undo = f"hsforensics fix-config {path_word(result.config_path, 'DRAFTER')} --undo"
        written = visible(f"Written and read back, the old file is {result.backup}. Undo: {undo}")
        return f"{written}\n{_then(result, 'restart the engine')}"
    if result.pending:
        how = "" if result.next_commands else " the same call with write=True"
        return f"Nothing is written yet. Next:{how}"
    return _NO_CHANGE[_has_errors(result)]


def check_line(result: FixConfigResult) -> str:
    """The one line of ``--check``."""
    if not result.pending:
        return visible(f"{result.config_path}: {_NO_CHANGE[_has_errors(result)].rstrip('.').lower()}")
    edits = "; ".join(f"{edit.key}: {edit.before or 'absent'} -> {edit.after}" for edit in result.edits)
    return visible(f"{result.config_path}: change pending for {result.after.engine}: {edits}")


def _then(result: FixConfigResult, deed: str) -> str:
    """How to have it measured, engine by engine where they differ."""
    engines = [each.after.engine for each in (ServedChange(result.before, result.after), *result.others)]
    live = [engine for engine in engines if to_measure(engine)]
    blind = [engine for engine in engines if engine not in live]
    said = [f"{engine}: nothing here records it; what it serves stays a prediction" for engine in blind]
    if live:
        each = f"; for each of {', '.join(live)}" if len(live) > 1 else f"; for {live[0]}" if blind else ""
        return "\n".join([*said, f"Next: {deed}, capture it, and compare again{each}."])
    return "\n".join([*said, f"Next: {deed}, and watch the accept length."])


def _has_errors(result: FixConfigResult) -> bool:
    return any(item.severity == "error" for item in result.findings)


def _print_diff(diff: str, out: Console) -> None:
    from rich.text import Text

    for line in diff.removesuffix("\n").split("\n"):
        out.print(Text(visible(line.removesuffix("\r")), _DIFF_STYLES.get(line[:1], "")), soft_wrap=True)


def _print_reasons(result: FixConfigResult, out: Console) -> None:
    for edit in result.edits:
        out.print()
        change = f"{edit.key}: {edit.before or 'absent'} -> {edit.after}"
        out.print(visible(change), markup=False, soft_wrap=True)
        print_wrapped(out, f"because {edit.reason}", indent=2)


def _served(prediction: Prediction) -> str:
    ids = "no ids, its default" if prediction.ids is None else f"ids {list(prediction.ids)}"
    mark = "predicted" if prediction.measured is None else "measured"
    if prediction.measured not in (None, prediction.states):
        mark = f"predicted; measured: {show_wiring(prediction.measured)}"
    return f"{ids}: {what_is_served(prediction)} ({mark})"
