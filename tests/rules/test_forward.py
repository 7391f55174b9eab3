"""Layer ids to states: the executed table of the facts, line by line, and the capture semantics."""

from __future__ import annotations

import pytest

from hsforensics.errors import HsfError
from hsforensics.rules.forward import default_states, states_for

DEEPSEEK, LLAMA, GLM = "DeepseekV2ForCausalLM", "LlamaForCausalLM", "Glm4MoeLiteForCausalLM"
KIMI = "KimiK25ForConditionalGeneration"

# (class, L, ids, first version, last version, capture indices as executed): indices outside of 0..L-1 are never
# captured, and order and doubles vanish, so the states are the indices that remain, in ascending order.
EXECUTED = [
    (DEEPSEEK, 61, None, "0.5.5", "0.5.23", [2, 30, 58]),
    (DEEPSEEK, 61, (1, 29, 57), "0.5.5", "0.5.23", [2, 30, 58]),
    (DEEPSEEK, 61, (2, 30, 58), "0.5.5", "0.5.12.post1", [3, 31, 59]),
    (DEEPSEEK, 61, (2, 30, 58), "0.5.13", "0.5.23", [2, 30, 58]),
    (DEEPSEEK, 61, (0, 30, 58), "0.5.5", "0.5.12.post1", [1, 31, 59]),
    (DEEPSEEK, 61, (0, 30, 58), "0.5.14", "0.5.23", [0, 30, 58]),
    (DEEPSEEK, 61, (29, 1, 57), "0.5.5", "0.5.12.post1", [2, 30, 58]),
    (DEEPSEEK, 61, (29, 1, 57), "0.5.13", "0.5.23", [1, 29, 57]),
    (GLM, 47, None, "0.5.13", "0.5.23", [2, 23, 44]),
    (GLM, 47, (1, 22, 43), "0.5.13", "0.5.23", [2, 23, 44]),
    (GLM, 47, (2, 23, 44), "0.5.13", "0.5.23", [2, 23, 44]),
    (LLAMA, 32, None, "0.4.5", "0.5.23", [2, 16, 29]),
    (LLAMA, 32, (1, 15, 28), "0.4.5", "0.5.23", [2, 16, 29]),
    (LLAMA, 32, (3, 15, 28), "0.4.5", "0.4.7", [2, 16, 29]),
    (LLAMA, 32, (3, 15, 28), "0.4.9", "0.5.23", [4, 16, 29]),
]


@pytest.mark.parametrize(("architecture", "layers", "ids", "first", "last", "states"), EXECUTED)
def test_the_executed_table_is_reproduced_at_both_ends_of_its_version_range(
    architecture: str, layers: int, ids: tuple[int, ...] | None, first: str, last: str, states: list[int]
) -> None:
    for version in (first, last):
        assert states_for(ids, "sglang", version, architecture, layers).states == tuple(states)


def test_kimi_delegates_to_deepseek_and_says_so() -> None:
    prediction = states_for((2, 30, 58), "sglang", "0.5.12.post1", KIMI, 61)
    assert prediction.states == (3, 31, 59)
    assert "delegates to DeepseekV3ForCausalLM" in prediction.note


@pytest.mark.parametrize(
    ("architecture", "crashes", "works"),
    [(DEEPSEEK, "0.5.13", "0.5.14"), (LLAMA, "0.5.21", "0.5.22"), (GLM, "0.5.20", "0.5.21")],
)
def test_state_zero_crashes_before_the_version_that_learned_it(architecture: str, crashes: str, works: str) -> None:
    ids = (-1, 5, 6) if architecture == LLAMA else (0, 6, 7)
    failed = states_for(ids, "sglang", crashes, architecture, 40)
    assert failed.states is None
    assert "state 0" in failed.note
    assert states_for(ids, "sglang", works, architecture, 40).states == (0, 6, 7)


@pytest.mark.parametrize("architecture", ["Qwen2ForCausalLM", "Qwen3ForCausalLM"])
def test_qwen_captures_the_embedding_in_every_version(architecture: str) -> None:
    for version in ("0.5.2", "0.5.23"):
        assert states_for((-1, 5, 6), "sglang", version, architecture, 40).states == (0, 6, 7)


def test_deepseek_does_not_shift_minus_one_any_more_and_loses_it() -> None:
    served = states_for((-1, 29, 57), "sglang", "0.5.16", DEEPSEEK, 61)
    assert served.states == (29, 57)
    assert "only 2 of 3" in served.note
    assert states_for((-1, 29, 57), "sglang", "0.5.17", DEEPSEEK, 61).states is None


@pytest.mark.parametrize("ids", [(2, 30, 60), (2, 30, 30)])
def test_the_last_state_and_doubles_are_lost_and_newer_deepseek_fails_for_it(ids: tuple[int, ...]) -> None:
    old = states_for(ids, "sglang", "0.5.12", DEEPSEEK, 61)
    assert old.states == (3, 31)
    raw = tuple(value + 1 for value in ids)
    assert states_for(raw, "sglang", "0.5.16", DEEPSEEK, 61).states == (3, 31)
    assert states_for(raw, "sglang", "0.5.17", DEEPSEEK, 61).states is None


def test_an_empty_list_of_ids_makes_the_engine_fail() -> None:
    prediction = states_for((), "sglang", "0.5.16", DEEPSEEK, 61)
    assert prediction.states is None
    assert "nothing is captured" in prediction.note


def test_without_the_number_of_layers_only_the_moving_part_of_the_default_is_unknown() -> None:
    assert default_states("sglang", "0.5.16", LLAMA, None) == (2, None, None)


def test_without_the_number_of_layers_the_top_is_not_checked_and_the_note_says_so() -> None:
    prediction = states_for((2, 30, 500), "sglang", "0.5.16", LLAMA, None)
    assert prediction.states == (3, 31, 501)
    assert "not checked" in prediction.note


def test_a_tiny_model_collapses_the_doubles_of_its_default() -> None:
    assert default_states("sglang", "0.5.16", LLAMA, 4) == (1, 2)


@pytest.mark.parametrize(
    ("engine", "version", "architecture", "named"),
    [
        ("nosuch", "1.0", LLAMA, "sglang"),
        ("sglang", "0.5.16", "DeepseekV9ForCausalLM", "DeepseekV3ForCausalLM"),
        ("sglang", "0.5.9", KIMI, "0.5.10"),
        ("sglang", "0.4.4", LLAMA, "0.4.5"),
        ("sglang", "0.5.13rc1", DEEPSEEK, "pre-release"),
    ],
)
def test_what_no_row_covers_is_refused_with_what_is_known(
    engine: str, version: str, architecture: str, named: str
) -> None:
    with pytest.raises(HsfError) as caught:
        states_for((1, 2, 3), engine, version, architecture, 40)
    assert caught.value.code == "rule-unknown"
    assert named in caught.value.message


@pytest.mark.parametrize("version", ["0.5.16rc1", "0.5.16+cpu", "0.5.15.dev3", "0.5.13.post1", "0.6.0"])
def test_pre_releases_builds_and_later_versions_take_the_row_of_their_range(version: str) -> None:
    assert states_for((2, 30, 58), "sglang", version, DEEPSEEK, 61).states == (2, 30, 58)
