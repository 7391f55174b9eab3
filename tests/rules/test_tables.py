"""The tables hang together: rows do not overlap, names resolve, traps are told."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from packaging.version import Version

from hsforensics.errors import HsfError
from hsforensics.rules.functions import DEFAULTS, RULES
from hsforensics.rules.lookup import caveats_for, covers, find_reading, find_rule, parse_engine
from hsforensics.rules.rows import NESTED_IDS, TOP_LEVEL_IDS, ConfigReading, IdRule
from hsforensics.rules.tables import CONFIG_READINGS, ENGINES, ID_RULES, MODEL_CLASSES

LLAMA, KIMI = "LlamaForCausalLM", "KimiK25ForConditionalGeneration"


def test_every_row_names_a_rule_and_a_default_that_exist() -> None:
    for row in ID_RULES:
        assert row.rule in RULES
        assert row.default in DEFAULTS
        assert row.source
        assert row.verified


def _ranges(rows: Iterable[IdRule | ConfigReading]) -> list[list[str]]:
    return [[part.lstrip("<>=") for part in row.versions.split(",")] for row in rows]


def test_ranges_of_a_family_follow_each_other_without_gap_or_overlap() -> None:
    families = {(row.engine, row.method, row.family) for row in ID_RULES}
    groups = [_ranges(r for r in ID_RULES if (r.engine, r.method, r.family) == key) for key in sorted(families)]
    readers = {(row.engine, row.method) for row in CONFIG_READINGS}
    groups += [_ranges(r for r in CONFIG_READINGS if (r.engine, r.method) == key) for key in sorted(readers)]
    gone = {row.until for row in MODEL_CLASSES}
    for group in groups:
        assert all(before[1] == after[0] for before, after in pairwise(group)), group
        assert len(group[-1]) == 1 or group[-1][1] in gone  # open: later versions keep the newest row


def test_every_class_has_a_rule_from_its_first_version_to_the_newest_or_to_its_last() -> None:
    for row in MODEL_CLASSES:
        versions = [row.since] if row.until else [row.since, ENGINES[row.engine].newest or "99"]
        for version in versions:
            assert find_rule(row.engine, version, row.name, row.method).family == row.family
            assert find_reading(row.engine, version, row.name, row.method).method == row.method


def test_a_class_that_is_gone_is_unknown_in_later_versions() -> None:
    with pytest.raises(HsfError, match="to before"):
        find_rule("sglang", "0.5.5", "Glm4vForConditionalGeneration")


def test_a_wrapper_delegates_to_a_class_of_its_own_family() -> None:
    family = {(row.name, row.method): row.family for row in MODEL_CLASSES}
    assert all(family[row.delegates_to, row.method] == row.family for row in MODEL_CLASSES if row.delegates_to)


def test_no_class_has_two_rows_for_one_version() -> None:
    for row in MODEL_CLASSES:
        twins = [r for r in MODEL_CLASSES if (r.engine, r.name, r.method) == (row.engine, row.name, row.method)]
        assert twins == [row]


@pytest.mark.parametrize(
    ("version", "architecture", "runner", "keys"),
    [
        ("0.11.0", "LlamaForCausalLM", "vllm-v1", ()),
        ("0.21.0", "LlamaForCausalLM", "vllm-v1", (TOP_LEVEL_IDS,)),
        ("0.22.1", "LlamaForCausalLM", "vllm-v1", (TOP_LEVEL_IDS, NESTED_IDS)),
        ("0.22.1", "Qwen3ForCausalLM", "vllm-v2", (TOP_LEVEL_IDS,)),
        ("0.24.0", "LlamaForCausalLM", "vllm-v2", (TOP_LEVEL_IDS,)),
        ("0.33.0", "KimiK25ForConditionalGeneration", "vllm-v2", (TOP_LEVEL_IDS, "eagle_config.layer_ids")),
    ],
)
def test_vllm_reads_the_keys_of_the_runner_that_a_version_takes_for_a_class(
    version: str, architecture: str, runner: str, keys: tuple[str, ...]
) -> None:
    reading = find_reading("vllm", version, architecture)
    assert (reading.engine, reading.keys) == (runner, keys)
    assert find_rule(runner, version, architecture) == find_rule("vllm", version, architecture)


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
    def partial(version: str) -> int:
        return sum("partial sum" in c.text for c in caveats_for("sglang", version, KIMI, at_default=False))

    assert (partial("0.5.12.post1"), partial("0.5.13"), partial("0.5.14")) == (1, 1, 0)


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


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("sgl==0.5.16", "sglang==0.5.16"),
        ("SGLan==0.5.16", "sglang==0.5.16"),
        ("vlm==0.33.0", "vllm==0.33.0"),
        ("tensorrtllm==1.0", "tensorrt-llm==1.0"),
    ],
)
def test_a_name_that_is_nearly_an_engines_is_a_slip(text: str, meant: str) -> None:
    with pytest.raises(HsfError) as caught:
        parse_engine(text)
    assert (caught.value.code, caught.value.remedy) == ("usage", f"did you mean {meant}?")


@pytest.mark.parametrize("text", ["transformers==5.17.0", "lmdeploy==0.9"])
def test_other_engines_are_engines_without_rules(text: str) -> None:
    assert str(parse_engine(text)) == text
