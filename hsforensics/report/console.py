"""The two streams: stdout carries data only, stderr carries everything else."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 120
"""Columns when the output is no terminal, so that logs and tests do not depend on a window."""


# Names and configs of strangers may hold escape sequences, or marks that turn the writing direction.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Text with control characters and direction marks written as escapes: shown, never obeyed."""
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def console(stream: IO[str]) -> Console:
    """A rich console on a stream; plain text of a fixed width unless the stream is a terminal."""
    from rich.console import Console

    terminal = stream.isatty()
    return Console(file=stream, width=None if terminal else PLAIN_WIDTH, highlight=False, no_color=not terminal or None)
