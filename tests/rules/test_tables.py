"""The tables hang together: rows do not overlap, names resolve, traps are told."""

from __future__ import annotations

from itertools import pairwise

import pytest
from packaging.version import Version

from hsforensics.errors import HsfError
from hsforensics.rules.functions import DEFAULTS, RULES
from hsforensics.rules.lookup import caveats_for, covers, find_rule, parse_engine
from hsforensics.rules.tables import CONFIG_READINGS, ENGINES, ID_RULES, MODEL_CLASSES, ConfigReading, IdRule

LLAMA, KIMI = "LlamaForCausalLM", "KimiK25ForConditionalGeneration"


def test_every_row_names_a_rule_and_a_default_that_exist() -> None:
    for row in ID_RULES:
        assert row.rule in RULES
        assert row.default in DEFAULTS
        assert row.source
        assert row.verified


def _ranges(rows: list[IdRule] | list[ConfigReading]) -> list[list[str]]:
    return [[part.lstrip("<>=") for part in row.versions.split(",")] for row in rows]


def test_ranges_of_a_family_follow_each_other_without_gap_or_overlap() -> None:
    groups = [_ranges([row for row in ID_RULES if row.family == family]) for family in {r.family for r in ID_RULES}]
    groups.append(_ranges(list(CONFIG_READINGS)))
    for group in groups:
        assert all(before[1] == after[0] for before, after in pairwise(group))
        assert len(group[-1]) == 1  # open: later versions keep the newest row


def test_every_class_has_a_rule_from_its_first_version_to_the_newest() -> None:
    for row in MODEL_CLASSES:
        for version in (row.since, ENGINES[row.engine].newest):
            assert find_rule(row.engine, version, row.name).family == row.family


def test_a_wrapper_delegates_to_a_class_of_its_own_family() -> None:
    family = {row.name: row.family for row in MODEL_CLASSES}
    assert all(family[row.delegates_to] == row.family for row in MODEL_CLASSES if row.delegates_to)


@pytest.mark.parametrize(
    ("version", "at_default", "words"),
    [
        ("0.4.7", False, "never reads layer ids"),
        ("0.5.10.post1", False, "CUDA graphs"),
        ("0.5.10.post1", True, None),
        ("0.5.11", False, None),
        ("0.5.24", True, "newer than 0.5.23"),
        ("0.5.23+cu130", True, None),
    ],
)
def test_known_traps_of_a_version_are_told(version: str, at_default: bool, words: str | None) -> None:
    texts = [caveat.text for caveat in caveats_for("sglang", version, LLAMA, at_default=at_default)]
    assert [words in text for text in texts] == [True] if words else texts == []


def test_deepseek_before_0_5_14_warns_of_partial_sums() -> None:
    assert ["partial sum" in c.text for c in caveats_for("sglang", "0.5.12.post1", KIMI, at_default=False)] == [True]
    assert caveats_for("sglang", "0.5.14", KIMI, at_default=False) == ()


def test_engine_text_is_normalised() -> None:
    engine = parse_engine(" SGLang == v0.5.12.post1 ")
    assert (engine.name, engine.version, str(engine)) == ("sglang", "0.5.12.post1", "sglang==0.5.12.post1")
    assert engine.title == "SGLang 0.5.12.post1"


@pytest.mark.parametrize("text", ["sglang", "sglang==", "==0.5", "sglang=0.5", "sglang==latest", ""])
def test_an_engine_without_a_version_is_a_usage_error(text: str) -> None:
    with pytest.raises(HsfError) as caught:
        parse_engine(text)
    assert caught.value.exit_code == 2
    assert "sglang==" in caught.value.remedy


def test_covers_takes_post_releases_into_the_older_range() -> None:
    assert covers(">=0.5.5,<0.5.13", "0.5.12.post1")
    assert Version("0.5.12.post1") < Version("0.5.13")
    assert not covers(">=0.5.13", "0.5.13rc1")
