"""How every command shows its help: paragraphs that fill the terminal, switches without a type, examples at the end."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from textwrap import indent
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from hsforensics.cli.examples import EXAMPLES, folded

_TYPES = ((r"<bool>", ""), (r"<int range>", "<int>"), (r"<list\[(\w+)\]>", r"<\1>"))
"""Types as typer writes them, and what a reader needs of them: a switch takes no value."""

_CODE = " " * 4  # a block of code in Markdown, too


class PlainCommand(TyperCommand):
    """A command whose options show types for people."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments and options, ``--help`` among them."""
        return [_typed(item, ctx) for item in super().get_params(ctx)]


class PlainGroup(TyperGroup):
    """The same for a group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Options, ``--help`` among them."""
        return [_typed(item, ctx) for item in super().get_params(ctx)]


def register(app: typer.Typer, path: str, command: Callable[..., None]) -> None:
    """Add a command whose help is its docstring, filled, and its examples.

    Args:
        app: The group that it belongs to.
        path: All words of its call, a key of ``EXAMPLES``.
        command: The function that typer parses for.
    """
    shown = f"{filled(inspect.getdoc(command) or '')}\n\n{_examples(EXAMPLES[path])}"
    app.command(path.rpartition(" ")[2], cls=PlainCommand, help=shown)(command)


def filled(text: str) -> str:
    """Paragraphs as one line each, for the terminal to wrap."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _examples(calls: tuple[str, ...]) -> str:
    title = "Example:" if len(calls) == 1 else "Examples:"
    blocks = (indent(folded(call), _CODE) for call in calls)
    return "\n\n".join((title, *blocks))


def _typed(param: Any, ctx: Any) -> Any:
    if isinstance(param, TyperOption) and param.metavar is None:
        shown = param.display_type(ctx)
        param.metavar = next((re.sub(old, new, shown) for old, new in _TYPES if re.fullmatch(old, shown)), None)
    return param
