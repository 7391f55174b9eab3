"""Health issues of many samples as findings: one for each channel and kind, however many files have it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hsforensics.findings import finding
from hsforensics.matching.health import HealthIssue, Kind
from hsforensics.states import Finding

SERVED_PREFIX = "request of "
"""How names of samples begin whose served rows are meant: a fault there is the capture's, not the dump's."""

SERVED_REMEDY = "Produce the capture again; if it stays, the engine serves such rows."

NAMED_SAMPLES, NAMED_SPANS = 3, 6
"""Samples that a finding names, and runs of rows in each."""

HEALTH_CODES: dict[Kind, str] = {
    "shape": "channel-unreadable",
    "short": "channel-unreadable",
    "dtype": "dtype-mixed",
    "nonfinite": "channel-unreadable",
    "constant": "rows-constant",
    "duplicate": "rows-duplicate",
    "stale": "rows-stale",
    "overflow": "values-overflow",
    "tokens": "tokens-invalid",
    "mask-length": "mask-length",
    "mask-empty": "mask-empty",
}
"""Kind of a health issue -> finding code."""


def health_findings(noted: Iterable[tuple[str, HealthIssue]], label: str | None = None) -> list[Finding]:
    """One finding for each kind of issue: how many rows of how many samples, the first of them; few are a warning.

    Args:
        noted: (name of the sample, issue), in the order seen.
        label: The channel, or ``None`` where samples as wholes are meant.
    """
    kinds: dict[tuple[Kind, bool], list[tuple[str, HealthIssue]]] = {}
    for name, issue in noted:
        kinds.setdefault((issue.kind, issue.few), []).append((name, issue))
    return [_finding(kind, items, label) for (kind, _), items in kinds.items()]


def _finding(kind: Kind, items: Sequence[tuple[str, HealthIssue]], label: str | None) -> Finding:
    first, issue = items[0]
    served = first.startswith(SERVED_PREFIX)
    names = [name.removeprefix(SERVED_PREFIX) for name, _ in items]
    total = sum(item.rows for _, item in items)
    where = f"{SERVED_PREFIX if served else ''}{', '.join(names[:NAMED_SAMPLES])}{_more(len(items))}"
    message, rows = issue.message, f"{total} row{'s'[: total != 1]}"
    if len(items) > 1:
        message = f"{message}, in {names[0]}; {len(items)} samples are so, {rows} in all"
    return finding(
        HEALTH_CODES[kind],
        f"{where}, {label}" if label else where,
        message,
        f"{rows}{_places(names, items)}",
        remedy=SERVED_REMEDY if served else None,
        severity="warning" if issue.few else None,
    )


def _places(names: Sequence[str], items: Sequence[tuple[str, HealthIssue]]) -> str:
    """The first samples' runs of rows; nothing where whole samples are meant."""
    if not items[0][1].spans:
        return ""
    if len(items) == 1:
        return f": {show_spans(items[0][1].spans)}"
    shown = zip(names[:NAMED_SAMPLES], items, strict=False)
    return ": " + "; ".join(f"{name} {show_spans(issue.spans)}" for name, (_, issue) in shown) + _more(len(items))


def _more(samples: int) -> str:
    return f" and {samples - NAMED_SAMPLES} more" if samples > NAMED_SAMPLES else ""


def show_spans(spans: Sequence[tuple[int, int]]) -> str:
    """Runs of rows in words: ``20, 24-27 and 3 more runs``."""
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans[:NAMED_SPANS])
    rest = len(spans) - NAMED_SPANS
    return shown if rest <= 0 else f"{shown} and {rest} more run{'s'[: rest != 1]}"
