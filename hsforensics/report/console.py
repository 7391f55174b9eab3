"""The two streams: stdout carries data only, stderr carries everything else."""

from __future__ import annotations

import os
import re
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

PLAIN_WIDTH = 120
"""Columns when the output is no terminal and ``COLUMNS`` does not say, so that logs do not depend on a window."""

_LABEL = 12  # columns of the names of values


# Names and configs of strangers may hold escape sequences, or marks that turn the writing direction.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Text with control characters and direction marks written as escapes: shown, never obeyed."""
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def console(stream: IO[str]) -> Console:
    """A rich console on a stream; plain text of ``COLUMNS`` or a fixed width unless the stream is a terminal."""
    from rich.console import Console

    terminal = stream.isatty()
    asked = os.environ.get("COLUMNS", "")
    plain = int(asked) if asked.isdecimal() and int(asked) > 0 else PLAIN_WIDTH
    return Console(file=stream, width=None if terminal else plain, highlight=False, no_color=not terminal or None)


def print_wrapped(out: Console, text: str | Text, *, indent: int = 0, hang: int | None = None, style: str = "") -> None:
    """Print a paragraph in the console's width, control characters shown, without blanks at the ends of lines.

    Args:
        out: The console.
        text: The paragraph, or one with styles; a word that is wider than the console is broken.
        indent: Blanks before the first line, and
        hang: before the others; as many by default.
        style: Of all of it.
    """
    _print_lines(out, text, " " * indent, " " * (indent if hang is None else hang), style)


def print_value(out: Console, name: str, value: str) -> None:
    """Print a named value: the name in a column of its own, the value wrapped beside it."""
    _print_lines(out, value, f"{name:<{_LABEL}}", " " * _LABEL, "")


def print_path(out: Console, name: str, value: str) -> None:
    """Print a named path, or what is to be copied like one, in one line."""
    out.print(f"{name:<{_LABEL}}{visible(value)}", markup=False, soft_wrap=True)


def _print_lines(out: Console, text: str | Text, first: str, rest: str, style: str) -> None:
    from rich.text import Text

    body = Text(visible(text), style) if isinstance(text, str) else text
    lines = body.wrap(out, max(1, out.width - max(len(first), len(rest))))
    for number, line in enumerate(lines or [Text()]):
        whole = Text.assemble(rest if number else first, line)
        whole.rstrip()
        out.print(whole, soft_wrap=True)
