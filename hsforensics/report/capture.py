"""``capture`` on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hsforensics.report.findings import print_findings
from hsforensics.results import CaptureResult
from hsforensics.states import State

if TYPE_CHECKING:
    from rich.console import Console


def print_capture(result: CaptureResult, out: Console) -> None:
    """Print what was captured from what, where it lies, and what was wrong with the dumps."""
    origin = result.provenance
    for source in origin.dumps:
        out.print(f"dumps     {source.path} ({source.producer}, {source.samples} samples)", markup=False)
    out.print(f"target    {origin.target_path} (L = {origin.layers}, width {origin.hidden_size})", markup=False)
    out.print(f"engine    {origin.engine} {origin.engine_version} ({origin.dtype}, {origin.device})", markup=False)
    out.print(f"capture   {result.path}", markup=False)
    size = f"{result.requests} requests, {result.rows} rows, {result.bytes / 1e6:.1f} MB"
    out.print(f"holds     {size}; states {show_states(result.states)}", markup=False)
    print_findings(result.findings, out)


def show_states(states: Sequence[State]) -> str:
    """A bank's states in a few words: ``0 to 30, mid:0 to mid:29, postnorm``."""
    numbers = [state for state in states if isinstance(state, int)]
    middles = [state for state in states if isinstance(state, str) and state.startswith("mid:")]
    others = [state for state in states if isinstance(state, str) and not state.startswith("mid:")]
    parts = [f"{numbers[0]} to {numbers[-1]}"] if _is_run(numbers) else [str(number) for number in numbers]
    parts += [f"{middles[0]} to {middles[-1]}"] if len(middles) > 1 else middles
    return ", ".join(parts + others)


def _is_run(numbers: Sequence[int]) -> bool:
    return len(numbers) > 1 and list(numbers) == list(range(numbers[0], numbers[-1] + 1))
