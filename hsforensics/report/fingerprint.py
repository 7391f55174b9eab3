"""``fingerprint`` on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsforensics.report.findings import print_findings
from hsforensics.results import FingerprintResult

if TYPE_CHECKING:
    from rich.console import Console


def print_fingerprint(result: FingerprintResult, out: Console) -> None:
    """Print what was written, and how small it is."""
    privacy = "sealed under the salt" if result.salted else "tells the text (--salt seals it)"
    each = result.bytes / max(1, result.samples * result.channels) / 1e3
    out.print(f"wrote     {result.path} ({result.bytes / 1e6:.2f} MB)", markup=False)
    out.print(f"holds     {result.samples} samples, {result.channels} channels, {result.rows} rows", markup=False)
    out.print(f"each      {each:.1f} kB for a channel of a sample; {privacy}", markup=False)
    print_findings(result.findings, out)
