"""Wiring to layer ids: the round trip over every row, and honest refusals."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from hsforensics.errors import HsfError
from hsforensics.rules.explain import explain_ids
from hsforensics.rules.forward import states_for
from hsforensics.rules.inverse import ids_for, versions_that_serve
from hsforensics.rules.lookup import EngineVersion, find_reading, find_rule
from hsforensics.rules.tables import CONFIG_READINGS, ID_RULES, MODEL_CLASSES

KIMI, DEEPSEEK, LLAMA = "KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLM", "LlamaForCausalLM"

_BOUNDS = {part.lstrip("<>=") for row in (*ID_RULES, *CONFIG_READINGS) for part in row.versions.split(",")}
_VERSIONS = sorted(_BOUNDS | {"0.5.10.post1", "0.5.12.post1", "0.5.16", "0.5.23"}, key=Version)
CASES = [
    (row.name, version) for row in MODEL_CLASSES for version in _VERSIONS if Version(version) >= Version(row.since)
]


@st.composite
def _ascending(draw: st.DrawFn) -> tuple[tuple[int, ...], int]:
    layers = draw(st.integers(5, 70))
    count = draw(st.integers(1, 5))
    states = draw(st.sets(st.integers(0, layers), min_size=count, max_size=count))
    return tuple(sorted(states)), layers


@settings(deadline=None)
@given(case=st.sampled_from(CASES), drawn=_ascending())
def test_ids_for_serves_exactly_the_wiring_or_refuses(
    case: tuple[str, str], drawn: tuple[tuple[int, ...], int]
) -> None:
    (architecture, version), (wiring, layers) = case, drawn
    if _plainly_expressible(wiring, version, architecture, layers):
        ids = ids_for(wiring, "sglang", version, architecture, layers)
        assert states_for(ids, "sglang", version, architecture, layers).states == wiring
    elif find_reading("sglang", version).ids_key is not None:
        with pytest.raises(HsfError) as caught:
            ids_for(wiring, "sglang", version, architecture, layers)
        assert caught.value.code == "not-expressible"


def _plainly_expressible(wiring: tuple[int, ...], version: str, architecture: str, layers: int) -> bool:
    """A wiring that no known limit forbids: computed from the rows' facts, not from the search."""
    rule, reading = find_rule("sglang", version, architecture), find_reading("sglang", version)
    fits = reading.ids_key is not None and reading.slots in (None, len(wiring))
    zero_fits = rule.state_zero or 0 not in wiring
    lone_one = rule.rule == "plus_one_if_first_is_one" and wiring == (1,)
    return fits and zero_fits and layers not in wiring and not lone_one


@settings(deadline=None)
@given(case=st.sampled_from(CASES), drawn=_ascending(), data=st.data())
def test_an_unordered_wiring_is_never_expressible(
    case: tuple[str, str], drawn: tuple[tuple[int, ...], int], data: st.DataObject
) -> None:
    (architecture, version), (wiring, layers) = case, drawn
    shuffled = tuple(data.draw(st.permutations(wiring)))
    if shuffled == wiring:
        return
    with pytest.raises(HsfError, match="permute the column blocks") as caught:
        ids_for(shuffled, "sglang", version, architecture, layers)
    assert caught.value.code == "not-expressible"


@pytest.mark.parametrize(
    ("version", "wiring", "ids"),
    [
        ("0.5.12.post1", (3, 31, 59), (2, 30, 58)),
        ("0.5.16", (3, 31, 59), (3, 31, 59)),
        ("0.5.12.post1", (2, 30, 58), (1, 29, 57)),
        ("0.5.13", (2, 30, 58), (2, 30, 58)),
        ("0.5.16", (1, 30, 58), (30, 1, 58)),
        ("0.5.12.post1", (1, 30, 58), (0, 29, 57)),
        ("0.5.14", (0, 3, 31), (0, 3, 31)),
    ],
)
def test_kimi_gets_the_conventional_spelling(version: str, wiring: tuple[int, ...], ids: tuple[int, ...]) -> None:
    assert ids_for(wiring, "sglang", version, KIMI, 61) == ids


def test_llama_writes_the_embedding_as_minus_one_once_it_can() -> None:
    assert ids_for((0, 3, 31), "sglang", "0.5.22", LLAMA, 61) == (-1, 2, 30)


@pytest.mark.parametrize(
    ("wiring", "version", "architecture", "reason", "remedy"),
    [
        ((0, 3, 31), "0.5.12.post1", KIMI, "state 0", ">=0.5.14"),
        ((3, 31, 61), "0.5.16", KIMI, "state 61", "retrain"),
        ((3, 31, "postnorm"), "0.5.16", KIMI, "postnorm", "retrain"),
        ((3, "mid:31", 59), "0.5.16", KIMI, "mid:31", "retrain"),
        ((3, 31, 62), "0.5.16", KIMI, "does not exist", "number of layers"),
        ((3, 3, 59), "0.5.16", KIMI, "twice", "retrain"),
        ((3, 59), "0.5.11", KIMI, "exactly 3", ">=0.5.12"),
        ((1,), "0.5.16", KIMI, "no list of ids", ">=0.5.12,<0.5.13"),
        ((3, 31, 59), "0.4.7", LLAMA, "never reads", ">=0.4.9"),
    ],
)
def test_a_refusal_names_the_reason_and_a_way_out(
    wiring: tuple[int | str, ...], version: str, architecture: str, reason: str, remedy: str
) -> None:
    with pytest.raises(HsfError) as caught:
        ids_for(wiring, "sglang", version, architecture, 61)
    assert caught.value.code == "not-expressible"
    assert reason in caught.value.message
    assert remedy in caught.value.remedy


def test_an_unknown_class_is_rule_unknown_and_not_inexpressible() -> None:
    with pytest.raises(HsfError) as caught:
        ids_for((3, 31, 59), "sglang", "0.5.16", "NoSuchForCausalLM", 61)
    assert caught.value.code == "rule-unknown"


def test_without_layers_only_the_checks_that_need_them_are_skipped() -> None:
    assert ids_for((3, 31, 61), "sglang", "0.5.16", KIMI, None) == (3, 31, 61)
    with pytest.raises(HsfError, match="state 0"):
        ids_for((0, 3, 31), "sglang", "0.5.12", KIMI, None)


def test_versions_that_serve_merges_neighbouring_ranges_and_keeps_gaps() -> None:
    assert versions_that_serve((0, 3, 31), "sglang", KIMI, 61) == (">=0.5.14",)
    assert versions_that_serve((3, 31, 59), "sglang", KIMI, 61) == (">=0.5.10",)
    assert versions_that_serve((1,), "sglang", KIMI, 61) == (">=0.5.12,<0.5.13",)
    assert versions_that_serve((3, 31, 61), "sglang", KIMI, 61) == ()


def test_the_reason_is_in_plain_words() -> None:
    old = explain_ids((2, 30, 58), (3, 31, 59), EngineVersion("sglang", "0.5.12.post1"), DEEPSEEK, 61)
    assert old == (
        "SGLang 0.5.12.post1 captures the input of layer id + 1 for DeepseekV3ForCausalLM, so state 3 is written 2, "
        "state 31 is written 30, state 59 is written 58"
    )
    same = explain_ids((2, 30, 58), (2, 30, 58), EngineVersion("sglang", "0.5.16"), DEEPSEEK, 61)
    assert "([1, 29, 57] would serve the same)" in same
    turned = explain_ids((30, 1, 58), (1, 30, 58), EngineVersion("sglang", "0.5.16"), DEEPSEEK, 61)
    assert "1 must not stand first" in turned
