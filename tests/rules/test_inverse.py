"""Wiring to layer ids: the round trip over every row, and honest refusals."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from hsforensics.errors import HsfError
from hsforensics.rules.explain import explain_ids
from hsforensics.rules.forward import find_serving, states_for
from hsforensics.rules.functions import NO_STATE
from hsforensics.rules.inverse import ids_for, versions_that_serve
from hsforensics.rules.lookup import EngineVersion, find_reading, find_rule
from hsforensics.rules.rows import Method, ModelClass
from hsforensics.rules.tables import CONFIG_READINGS, ID_RULES, MODEL_CLASSES, RUNNERS


class Case(NamedTuple):
    """An engine, a version, a class and a method that a row covers."""

    engine: str
    version: str
    architecture: str
    method: Method


KIMI, DEEPSEEK, LLAMA = "KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLM", "LlamaForCausalLM"

_NEWEST = {"sglang": "0.5.23", "vllm": "0.33.0", "tensorrt-llm": "1.0"}


def _versions(row: ModelClass) -> list[str]:
    """First and last moments of every range that matters to a class."""
    rows = (*ID_RULES, *CONFIG_READINGS, *RUNNERS)
    bounds = {part.lstrip("<>=") for other in rows if row.engine in other.engine for part in other.versions.split(",")}
    last = Version(row.until) if row.until else None
    kept = [Version(text) for text in bounds | {row.since, _NEWEST[row.engine]}]
    return [str(v) for v in sorted(kept) if v >= Version(row.since) and (last is None or v < last)]


CASES = [
    Case(row.engine, version, "AnyForCausalLM" if row.name == "*" else row.name, row.method)
    for row in MODEL_CLASSES
    for version in _versions(row)
]


@st.composite
def _ascending(draw: st.DrawFn) -> tuple[tuple[int, ...], int]:
    layers = draw(st.integers(5, 70))
    count = draw(st.integers(1, 5))
    states = draw(st.sets(st.integers(0, layers), min_size=count, max_size=count))
    return tuple(sorted(states)), layers


@settings(deadline=None, max_examples=500)
@given(case=st.sampled_from(CASES), drawn=_ascending())
def test_ids_for_serves_exactly_the_wiring_or_refuses(case: Case, drawn: tuple[tuple[int, ...], int]) -> None:
    wiring, layers = drawn
    if _plainly_expressible(wiring, case, layers):
        ids = ids_for(wiring, *case[:3], layers, case.method)
        assert states_for(ids, *case[:3], layers, case.method).states == wiring
        return
    with pytest.raises(HsfError) as caught:
        ids_for(wiring, *case[:3], layers, case.method)
    assert caught.value.code == "not-expressible"


def _plainly_expressible(wiring: tuple[int, ...], case: Case, layers: int) -> bool:
    """A wiring that no known limit forbids: computed from the rows' facts, not from the search."""
    rule, reading = find_rule(*case[:3], case.method), find_reading(*case[:3], case.method)
    able = rule.rule not in ("ignores_ids", "fails", "captures_nothing", *NO_STATE)
    fits = reading.slots in (None, len(wiring))
    zero_fits = rule.state_zero or 0 not in wiring
    last_fits = rule.last_state == "captured" or layers not in wiring
    lone_one = rule.rule == "plus_one_if_first_is_one" and wiring == (1,)
    return able and fits and zero_fits and last_fits and not lone_one


@settings(deadline=None, max_examples=300)
@given(case=st.sampled_from(CASES), ids=st.lists(st.integers(-2, 45), max_size=5), layers=st.integers(5, 40))
def test_whatever_ids_serve_can_be_asked_for_again(case: Case, ids: list[int], layers: int) -> None:
    served = states_for(tuple(ids), *case[:3], layers, case.method).states
    if served is None or find_reading(*case[:3], case.method).slots not in (None, len(served)):
        return
    if find_rule(*case[:3], case.method).rule == "ignores_ids":
        return
    states = tuple(state for state in served if state is not None)
    again = ids_for(states, *case[:3], layers, case.method)
    assert states_for(again, *case[:3], layers, case.method).states == served


@settings(deadline=None)
@given(case=st.sampled_from(CASES), drawn=_ascending(), data=st.data())
def test_an_unordered_wiring_is_never_expressible(
    case: Case, drawn: tuple[tuple[int, ...], int], data: st.DataObject
) -> None:
    wiring, layers = drawn
    shuffled = tuple(data.draw(st.permutations(wiring)))
    if shuffled == wiring:
        return
    with pytest.raises(HsfError, match="permute the column blocks") as caught:
        ids_for(shuffled, *case[:3], layers, case.method)
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


def _explained(ids: tuple[int, ...], wiring: tuple[int, ...], version: str) -> str:
    return explain_ids(find_serving(EngineVersion("sglang", version), DEEPSEEK, 61), ids, wiring)


def test_the_reason_is_in_plain_words() -> None:
    old = _explained((2, 30, 58), (3, 31, 59), "0.5.12.post1")
    assert old == (
        "SGLang 0.5.12.post1 captures the input of layer id + 1 for DeepseekV3ForCausalLM, so state 3 is written 2, "
        "state 31 is written 30, state 59 is written 58"
    )
    same = _explained((2, 30, 58), (2, 30, 58), "0.5.16")
    assert "([1, 29, 57] would serve the same)" in same
    turned = _explained((30, 1, 58), (1, 30, 58), "0.5.16")
    assert "1 must not stand first" in turned
