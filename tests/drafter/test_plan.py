"""One config for several engines: keys, shared lists, and edits that must not spoil each other."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsforensics.drafter.config import DrafterConfig, parse_drafter_config, predict_with
from hsforensics.drafter.edits import apply_changes
from hsforensics.drafter.plan import plan_changes
from hsforensics.errors import HsfError
from hsforensics.rules.forward import Serving, find_serving, serve
from hsforensics.rules.lookup import parse_engine
from hsforensics.rules.rows import NESTED_IDS, TOP_LEVEL_IDS

KIMI = "KimiK25ForConditionalGeneration"
OLD, NEW, V1, V2 = "sglang==0.5.12.post1", "sglang==0.5.16", "vllm-v1==0.24.0", "vllm==0.33.0"
TRTLLM = "tensorrt-llm==1.0"
WIRING = (3, 31, 59)


def _config(**data: Any) -> DrafterConfig:
    return parse_drafter_config(Path("config.json"), json.dumps(data).encode())


def _servings(*engines: str, architecture: str = KIMI) -> tuple[Serving, ...]:
    return tuple(find_serving(parse_engine(text), architecture, 61) for text in engines)


def _fixed(config: DrafterConfig, servings: tuple[Serving, ...], wiring: tuple[int, ...]) -> DrafterConfig:
    changes = plan_changes(config, servings, wiring)
    return parse_drafter_config(config.path, apply_changes(config.text, changes).encode())


def test_sglang_gets_the_nested_key_and_vllm_the_top_level_one() -> None:
    fixed = _fixed(_config(), _servings(OLD, V2), WIRING)
    assert fixed.get(NESTED_IDS) == [2, 30, 58]
    assert fixed.get(TOP_LEVEL_IDS) == [3, 31, 59]


def test_a_key_written_for_one_engine_does_not_spoil_another_that_only_falls_back_to_it() -> None:
    right_for_vllm = _config(eagle_config={"eagle_aux_hidden_state_layer_ids": [3, 31, 59]})
    (vllm,) = _servings(V1)
    assert predict_with(vllm, right_for_vllm).states == WIRING
    fixed = _fixed(right_for_vllm, _servings(OLD, V1), WIRING)
    assert (fixed.get(NESTED_IDS), fixed.get(TOP_LEVEL_IDS)) == ([2, 30, 58], [3, 31, 59])


def test_one_list_is_found_for_two_versions_that_read_the_same_key() -> None:
    fixed = _fixed(_config(), _servings(OLD, NEW), (2, 31, 59))
    assert fixed.get(NESTED_IDS) == [1, 30, 58]


def test_two_versions_that_no_one_list_satisfies_are_refused_with_both_lists() -> None:
    with pytest.raises(HsfError) as caught:
        plan_changes(_config(), _servings(OLD, NEW), WIRING)
    assert caught.value.code == "not-expressible"
    assert "[2, 30, 58] for sglang==0.5.12.post1" in caught.value.message
    assert "[3, 31, 59] for sglang==0.5.16" in caught.value.message
    assert "--output" in caught.value.remedy


def test_an_engine_that_takes_ids_as_an_argument_is_told_which() -> None:
    with pytest.raises(HsfError) as caught:
        plan_changes(_config(), _servings(TRTLLM), WIRING)
    assert "eagle3_layers_to_capture=[2, 30, 58]" in caught.value.message
    assert plan_changes(_config(), _servings(TRTLLM), (2, 30, 58)) == ()


def test_engines_that_were_measured_right_are_left_alone() -> None:
    servings = _servings(OLD)
    assert plan_changes(_config(), servings, WIRING, content=servings) == ()


@pytest.mark.parametrize("count", [4, "3"])
def test_a_count_at_odds_with_fc_is_repaired_with_the_ids(count: object) -> None:
    fixed = _fixed(_config(num_aux_hidden_states=count, eagle_config=None), _servings(NEW, V2), WIRING)
    assert fixed.get("num_aux_hidden_states") == 3
    assert fixed.get("eagle_config") == {"eagle_aux_hidden_state_layer_ids": [3, 31, 59]}


def _shareable(servings: tuple[Serving, ...], wiring: tuple[int, ...]) -> bool:
    """Whether every key has a list for all that write it, by plain enumeration over the two conventions."""
    lists = [wiring, tuple(state - 1 for state in wiring)]
    lists += [(*ids[1:], ids[0]) for ids in lists]
    for key in {serving.reading.ids_key for serving in servings}:
        group = [serving for serving in servings if serving.reading.ids_key == key]
        if not any(all(serve(s, ids).states == wiring for s in group) for ids in lists):
            return False
    return True


_IDS = st.none() | st.lists(st.integers(-1, 61), max_size=4) | st.just("broken")
_ENGINES = ["sglang==0.5.11", OLD, NEW, "sglang==0.5.23", V1, V2, "vllm==0.22.1"]


@settings(deadline=None, max_examples=150)
@given(
    engines=st.sampled_from([pair for size in (1, 2, 3) for pair in combinations(_ENGINES, size)]),
    architecture=st.sampled_from([KIMI, "LlamaForCausalLM", "GptOssForCausalLM", "Qwen3MoeForCausalLM"]),
    wiring=st.sets(st.integers(1, 60), min_size=3, max_size=3),
    nested=_IDS,
    top=_IDS,
    switch=st.sampled_from([None, True, False]),
)
def test_whatever_the_config_says_every_engine_serves_the_wiring_afterwards(
    engines: tuple[str, ...], architecture: str, wiring: set[int], nested: Any, top: Any, switch: bool | None
) -> None:
    inner = {"eagle_aux_hidden_state_layer_ids": nested, "use_aux_hidden_state": switch}
    inner = {key: value for key, value in inner.items() if value is not None}
    config = _config(eagle_config=inner or None, eagle_aux_hidden_state_layer_ids=top, other=[1, "x"])
    servings, wanted = _servings(*engines, architecture=architecture), tuple(sorted(wiring))
    if len(servings) > 1 and not _shareable(servings, wanted):
        with pytest.raises(HsfError, match="no one list"):
            plan_changes(config, servings, wanted)
        return
    fixed = _fixed(config, servings, wanted)
    assert all(predict_with(serving, fixed).states == wanted for serving in servings)
    assert plan_changes(fixed, servings, wanted) == ()
    assert fixed.get("other") == [1, "x"]
