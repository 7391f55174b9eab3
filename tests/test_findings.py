"""Findings: what is known is filled into commands, quoted, and once."""

from __future__ import annotations

import shlex
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hsforensics.findings import CATALOGUE, PLACEHOLDERS, fill, fill_findings, finding

REPAIR = CATALOGUE["offset-mixed"].commands[1]


def test_what_is_known_is_filled_and_the_rest_stays() -> None:
    assert fill(REPAIR, {}) == REPAIR
    filled = fill(REPAIR, {"DRAFTER": "my drafter", "ENGINE==VERSION": "sglang==0.5.16"})
    assert filled == "hsforensics fix-config 'my drafter' --report report.json --engine sglang==0.5.16"


@given(st.text(min_size=1), st.sampled_from(PLACEHOLDERS))
def test_any_path_is_one_word_to_a_shell_even_if_it_is_called_like_a_placeholder(text: str, other: str) -> None:
    words = shlex.split(fill("hsforensics compare DUMPS CAPTURE", {"DUMPS": text, "CAPTURE": other}))
    assert words == ["hsforensics", "compare", text if text.isprintable() else "DUMPS", other]


def test_a_remedy_of_its_own_comes_without_the_commands_of_its_kind() -> None:
    assert finding("offset-mixed", "", "", "").commands == CATALOGUE["offset-mixed"].commands
    assert finding("offset-mixed", "", "", "", remedy="wait").commands == ()
    assert finding("offset-mixed", "", "", "", commands=()).remedy == CATALOGUE["offset-mixed"].remedy


def test_filling_changes_nothing_but_commands() -> None:
    plain = finding("offset-mixed", "DRAFTER", "DRAFTER", "DRAFTER")
    (filled,) = fill_findings([plain], {"DRAFTER": "d"})
    assert filled.commands != plain.commands
    assert replace(filled, commands=plain.commands) == plain
