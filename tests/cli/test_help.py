"""Help for people: filled paragraphs, types that mean something, and examples that the command line itself takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from hsforensics.cli.examples import EXAMPLES, folded
from hsforensics.cli.main import app
from hsforensics.cli.shape import filled
from hsforensics.findings import CATALOGUE, PLACEHOLDERS

ROOT = typer.main.get_command(app)


def _paths(command: Any, path: str = "hsforensics") -> Iterator[str]:
    yield path
    for name, child in command.commands.items() if isinstance(command, TyperGroup) else ():
        yield from _paths(child, f"{path} {name}")


PATHS = tuple(_paths(ROOT))


def _help(path: str, columns: int = 80) -> str:
    words = [*path.split()[1:], "--help"]
    done = CliRunner().invoke(app, words, env={"COLUMNS": str(columns), "TERMINAL_WIDTH": str(columns)})
    assert done.exit_code == 0
    return done.stdout


def _parse(call: str) -> None:
    """Parse a call as the command line does, without running it; a wrong one raises."""
    command, words = ROOT, shlex.split(call.partition(" > ")[0])[1:]
    while isinstance(command, TyperGroup) and words:
        command, words = command.commands[words[0]], words[1:]
    command.make_context("hsforensics", words)


@pytest.mark.parametrize("path", PATHS)
def test_types_are_for_people_and_switches_have_none(path: str) -> None:
    text = _help(path)
    assert not re.search(r"<bool>|list\[|int range", text)
    assert re.search(r"--help +(│|Show)", text)


@pytest.mark.parametrize("path", PATHS)
def test_no_paragraph_breaks_before_the_terminal_does(path: str) -> None:
    body = _help(path).split("Usage:")[1].split("╭")[0].split("Example")[0]
    for paragraph in re.split(r"\n\s*\n", body)[1:]:
        lines = [line.strip() for line in paragraph.strip().split("\n")]
        for line, following in pairwise(lines):
            assert len(f"{line} {following.split(' ')[0]}") > 78, paragraph


def test_filled_text_keeps_paragraphs_and_nothing_else() -> None:
    assert filled("one\ntwo  three\n\n  four\n") == "one two three\n\nfour"


def test_every_command_has_an_example_and_shows_it() -> None:
    assert set(EXAMPLES) == set(PATHS)
    for path in PATHS:
        if path not in ("hsforensics", "hsforensics contract"):
            shown = " ".join(_help(path).replace("\\", " ").split())
            assert all(" ".join(call.split()) in shown for call in EXAMPLES[path])


@pytest.mark.parametrize("call", [call for calls in EXAMPLES.values() for call in calls])
def test_examples_are_right_calls_and_folded_ones_are_the_same(call: str) -> None:
    _parse(call)
    assert shlex.split(folded(call).replace("\\\n", " ")) == shlex.split(call)
    assert max(map(len, folded(call).split("\n"))) <= 76


@pytest.mark.parametrize("call", sorted({call for kind in CATALOGUE.values() for call in kind.commands}))
def test_commands_of_remedies_are_right_calls_of_known_placeholders(call: str) -> None:
    _parse(call.replace("LAYERS", "61").replace("STATES", "3,31,59"))
    assert set(re.findall(r"(?<=\s)[A-Z][A-Z=]*(?=\s|$)", call)) <= set(PLACEHOLDERS)
