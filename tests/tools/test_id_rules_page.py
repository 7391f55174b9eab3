"""docs/id-rules.md is made from the data, whole and up to date."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from hsforensics.rules.tables import ID_RULES, MODEL_CLASSES

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "id-rules.md").read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "tools" / "id_rules_page.py"))["id_rules_page"]()
    assert PAGE.partition("-->\n\n")[2] == made, "run: make docs"


def test_every_class_and_every_rule_row_is_on_it() -> None:
    for row in MODEL_CLASSES:
        assert f"| `{row.name}` |" in PAGE
    for rule in ID_RULES:
        assert rule.source in PAGE


@pytest.mark.parametrize("known", ["verified live (0.5.20)", "executed on stubs", "read from source", "unknown"])
def test_every_row_says_how_it_is_known(known: str) -> None:
    assert f"| {known} |" in PAGE


def test_no_table_row_has_too_many_or_too_few_cells() -> None:
    width = 0
    for line in PAGE.splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = line.replace("\\|", "").count("|")
        assert width in (0, cells), line
        width = cells
