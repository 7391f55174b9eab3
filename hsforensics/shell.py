"""Words of commands that are shown to be copied: a shell must read back exactly what was meant, whoever said it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path


def quoted(text: str) -> str | None:
    """A word, quoted for a shell; ``None`` where no terminal shows it as it is.

    Control characters, direction marks and undecodable bytes are shown as something else, so a copy names something
    else; a tab becomes spaces.
    """
    return shlex.quote(text) if text.isprintable() else None


def path_text(path: str | Path) -> str:
    """A path that no command takes for an option: ``./`` goes before a dash, where pathlib drops it."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def path_word(path: str | Path, otherwise: str) -> str:
    """A path, quoted for a shell, or a placeholder where it cannot be shown."""
    return quoted(path_text(path)) or otherwise


class Filled(str):
    """A filled command. It remembers what it was made of, so that filling it again never reads a value as a template.

    Attributes:
        template: The command with all its placeholders.
        words: Placeholder -> what was put there.
    """

    template: str
    words: Mapping[str, str]

    @classmethod
    def of(cls, text: str, template: str, words: Mapping[str, str]) -> Filled:
        """A command with its origin."""
        made = cls(text)
        made.template, made.words = template, words
        return made
