"""Paragraphs on a console: of its width, nothing cut, nothing obeyed, no blanks at the ends of lines."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from hsforensics.flows.fix_config import fix_config
from hsforensics.flows.rules import rules
from hsforensics.report.console import PLAIN_WIDTH, console, print_path, print_value, print_wrapped
from hsforensics.report.fix_config import print_fix_config
from hsforensics.report.rules import print_rules
from tests.incident import KIMI, LAYERS, TRAINED, write_config

WORDS = " ".join(f"word{number}" for number in range(60))


@pytest.mark.parametrize(
    ("asked", "width"),
    [(None, PLAIN_WIDTH), ("80", 80), ("200", 200), ("0", PLAIN_WIDTH), ("", PLAIN_WIDTH), ("wide", PLAIN_WIDTH)],
)
def test_plain_output_is_as_wide_as_columns_says(
    asked: str | None, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if asked is not None:
        monkeypatch.setenv("COLUMNS", asked)
    stream = io.StringIO()
    print_wrapped(console(stream), "a" * 1000)
    assert len(stream.getvalue().splitlines()[0]) == width


def _printed(*, width: str = "40", value: bool = False, text: str = WORDS, indent: int = 0, hang: int = 0) -> list[str]:
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", width)
        out = console(stream)
        if value:
            print_value(out, "because", text)
        else:
            print_wrapped(out, text, indent=indent, hang=hang)
    return stream.getvalue().splitlines()


def test_a_paragraph_keeps_every_word_within_the_width_and_no_blank_at_an_end() -> None:
    lines = _printed(indent=2, hang=4)
    assert " ".join(line.strip() for line in lines) == WORDS
    assert max(map(len, lines)) <= 40
    assert [line for line in lines if line != line.rstrip()] == []
    assert (lines[0][:3], lines[1][:5]) == ("  w", "    w")


def test_a_value_is_wrapped_beside_its_name() -> None:
    lines = _printed(value=True)
    assert lines[0].startswith("because     word0 ")
    assert {line[:12] for line in lines[1:]} == {" " * 12}
    assert max(map(len, lines)) <= 40


@pytest.mark.parametrize("text", ["", "[red]no markup[/red]"])
def test_nothing_and_markup_are_shown_as_they_are(text: str) -> None:
    assert _printed(value=True, text=text) == [f"because     {text}".rstrip()]


def test_control_characters_are_escaped_before_lines_are_measured() -> None:
    assert "".join(_printed(text="\x1b[31m" * 20)) == r"\u001b[31m" * 20


def test_a_path_stays_in_one_line() -> None:
    stream = io.StringIO()
    print_path(console(stream), "config", "long/" * 60)
    assert stream.getvalue() == f"config      {'long/' * 60}\n"


def test_reports_of_rules_and_fix_config_fit_into_eighty_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    write_config(Path())
    asked = {"engine": "sglang==0.5.16", "architecture": KIMI, "layers": LAYERS}
    stream = io.StringIO()
    print_rules(rules(states=(3, 31, 59), **asked), console(stream))
    print_rules(rules(states=(3, 31, 61), **asked), console(stream))
    print_fix_config(fix_config(Path(), wiring=TRAINED, **asked), console(stream))
    lines = [line for line in stream.getvalue().splitlines() if not line.lstrip().startswith(("$", "eagle_config."))]
    assert [line for line in lines if len(line) > 80] == []
