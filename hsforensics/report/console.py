"""The two streams: stdout carries data only, stderr carries everything else."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 120
"""Columns when the output is no terminal, so that logs and tests do not depend on a window."""


def console(stream: IO[str]) -> Console:
    """A rich console on a stream; plain text of a fixed width unless the stream is a terminal."""
    from rich.console import Console

    terminal = stream.isatty()
    return Console(file=stream, width=None if terminal else PLAIN_WIDTH, highlight=False, no_color=not terminal or None)
