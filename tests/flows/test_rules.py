"""``rules`` as a library: ids to states, states to ids, and what other ways cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hsforensics.cli.rules import exit_code
from hsforensics.errors import HsfError
from hsforensics.flows.rules import rules
from hsforensics.report.rules import answer
from hsforensics.results_rules import NOWHERE, RulesResult
from hsforensics.rules.forward import states_for
from hsforensics.rules.lookup import covers
from hsforensics.rules.rows import Method
from tests.rules.introspect.engines import LLAMA, make_tree

KIMI = "KimiK25ForConditionalGeneration"


def _ask(engine: str | None = "sglang==0.5.16", **options: Any) -> RulesResult:
    return rules(engine=engine, **{"architecture": KIMI, "layers": 61, **options})


def _codes(result: RulesResult) -> list[str]:
    return [item.code for item in result.findings]


@pytest.mark.parametrize(
    ("engine", "ids", "states"),
    [
        ("sglang==0.5.12.post1", (2, 30, 58), (3, 31, 59)),
        ("sglang==0.5.16", (2, 30, 58), (2, 30, 58)),
        ("sglang==0.5.16", None, (2, 30, 58)),
        ("vllm==0.33.0", (2, 30, 61), (2, 30, 61)),
        ("tensorrt-llm==1.0", (2, 30, -1), (3, 31, "postnorm")),
    ],
)
def test_ids_become_states(engine: str, ids: tuple[int, ...] | None, states: tuple[object, ...]) -> None:
    answer = _ask(engine, ids=ids)
    assert (answer.question, answer.states, answer.expressible) == ("ids", states, None)


def test_ids_with_which_the_engine_fails_are_an_error_with_the_reason() -> None:
    answer = _ask("sglang==0.5.12.post1", ids=(-1, 2, 30))
    assert answer.states is None
    assert _codes(answer)[0] == "ids-fail"
    assert "state 0" in answer.reason


@pytest.mark.parametrize(
    ("engine", "architecture", "said"),
    [
        ("sglang==0.5.16", KIMI, "without ids: its default serves [2, 30, 58]"),
        ("sglang==0.5.23", "Gemma3ForConditionalGeneration", "without ids: no state of the target is served"),
    ],
)
def test_no_ids_are_no_lack_of_an_answer(engine: str, architecture: str, said: str) -> None:
    asked = _ask(engine, architecture=architecture)
    assert answer(asked) == said
    assert not [item for item in asked.findings if "no ids" in item.message]


def test_states_become_ids_with_the_other_spelling_beside_them() -> None:
    answer = _ask(states=(2, 30, 58))
    assert (answer.expressible, answer.ids) == (True, (2, 30, 58))
    assert [(way.kind, way.ids) for way in answer.alternatives] == [("spelling", (1, 29, 57))]


def test_what_cannot_be_asked_for_comes_with_other_engines_and_the_nearest_states() -> None:
    answer = _ask(states=(3, 31, 61))
    assert (answer.expressible, answer.ids) == (False, None)
    assert [way.kind for way in answer.alternatives] == ["engine", "engine", "nearest"]
    assert answer.alternatives[0].key == "eagle_aux_hidden_state_layer_ids"
    assert answer.alternatives[2].states == (3, 31, 60)


def test_an_unordered_wiring_can_be_permuted_and_says_what_that_costs() -> None:
    answer = _ask(states=(31, 3, 59))
    first = answer.alternatives[0]
    assert (first.kind, first.states, first.ids) == ("order", (3, 31, 59), (3, 31, 59))
    assert "--permute-fc" in first.cost


def test_another_version_is_offered_with_its_range() -> None:
    answer = _ask("sglang==0.5.12", states=(0, 3, 31))
    (version,) = (way for way in answer.alternatives if way.kind == "version")
    assert (version.versions, version.engine, version.ids) == (">=0.5.14", "sglang==0.5.14", (0, 3, 31))


def test_a_state_named_twice_has_no_other_way() -> None:
    assert _ask(states=(3, 3, 59)).alternatives == ()


def test_postnorm_is_offered_where_an_engine_can_feed_it() -> None:
    (way,) = _ask(states=(3, 31, "postnorm")).alternatives
    assert (way.engine, way.ids, way.key) == ("tensorrt-llm==1.0", (2, 30, -1), "eagle3_layers_to_capture")


@pytest.mark.parametrize("states", [(3, 31, 61), (31, 0, 59), (0, 30, 61), (1,), (61, 2)])
def test_every_alternative_serves_what_it_says(states: tuple[int, ...]) -> None:
    for way in _ask("sglang==0.5.12", states=states).alternatives:
        name, _, version = way.engine.partition("==")
        assert states_for(way.ids, name, version, KIMI, 61).states == way.states


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"ids": (1,), "states": (2,)}, "usage"),
        ({"engine": None}, "usage"),
        ({"architecture": None}, "usage"),
        ({"engine": "sglang"}, "usage"),
        ({"architecture": "NoSuchForCausalLM"}, "rule-unknown"),
        ({"method": "dspark"}, "rule-unknown"),
    ],
)
def test_incomplete_questions_are_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(HsfError) as caught:
        _ask(**options)
    assert caught.value.code == code


def test_class_and_depth_come_from_a_multimodal_targets_text_config_and_no_remote_code_runs(tmp_path: Path) -> None:
    inner = {"num_hidden_layers": 61, "hidden_size": 8, "vocab_size": 9, "architectures": ["DeepseekV3ForCausalLM"]}
    outer = {"architectures": ["NoSuchVision"], "auto_map": {"AutoConfig": "evil.Config"}, "text_config": inner}
    (tmp_path / "config.json").write_text(json.dumps(outer))
    (tmp_path / "evil.py").write_text("raise SystemExit('executed')")
    answer = _ask(architecture=None, layers=None, target=tmp_path)
    assert (answer.architecture, answer.layers) == ("DeepseekV3ForCausalLM", 61)


def test_the_rule_in_the_code_counts_and_the_disagreement_is_told(tmp_path: Path) -> None:
    changed = LLAMA.replace("[val + 1 for val in layer_ids]", "list(layer_ids)")
    place = str(make_tree(tmp_path, llama=changed))
    answer = _ask(None, architecture="LlamaForCausalLM", ids=(2, 30, 58), place=place)
    assert (answer.engine, answer.states) == ("sglang==0.5.99", (2, 30, 58))
    assert "rule-introspected" in _codes(answer)
    assert _ask("sglang==0.5.99", architecture="LlamaForCausalLM", ids=(2, 30, 58)).states == (3, 31, 59)


def test_a_newer_version_says_so_and_points_to_introspection() -> None:
    newer = _ask("sglang==0.6.0", ids=(2, 30, 58))
    assert any("newer than 0.5.23" in item.message and "--introspect" in item.message for item in newer.findings)


def test_order_sensitivity_is_told_to_who_writes_by_hand() -> None:
    assert any("order of the list" in item.message for item in _ask(ids=(2, 30, 58)).findings)


@pytest.mark.parametrize(
    ("engine", "architecture", "known"),
    [
        ("sglang==0.5.23", "LlamaForCausalLM", "verified live"),
        ("sglang==0.5.15", KIMI, "executed on stubs"),
        ("vllm==0.33.0", KIMI, "read from source"),
        ("sglang==0.5.23", "MindSporeForCausalLM", "unknown"),
    ],
)
def test_the_answer_says_how_it_is_known(engine: str, architecture: str, known: str) -> None:
    assert _ask(engine, architecture=architecture, ids=(2, 30, 58)).verified == known


@pytest.mark.parametrize(
    ("engine", "architecture", "method"),
    [
        ("sglang==0.5.17", "Gemma3ForCausalLM", "eagle3"),
        ("sglang==0.5.23", "Gemma3ForConditionalGeneration", "eagle3"),
        ("sglang==0.5.21", "Gemma4ForCausalLM", "eagle3"),
        ("sglang==0.5.21", "Gemma4ForCausalLM", "dflash"),
    ],
)
def test_a_class_that_serves_no_state_has_no_ids_but_other_versions_and_engines(
    engine: str, architecture: str, method: Method
) -> None:
    served = _ask(engine, architecture=architecture, ids=(1, 2, 3), method=method)
    assert served.states is None
    first = served.findings[0]
    assert (first.code, first.severity) == ("ids-fail", "error")
    assert "no state of the target" in first.message
    assert "no state of the target is served" in answer(served)
    asked = _ask(engine, architecture=architecture, states=(2, 3, 4), method=method)
    assert (asked.expressible, asked.ids) == (False, None)
    assert {way.kind for way in asked.alternatives} == {"version", "engine"}


def test_gemma_in_the_versions_around_the_faulty_ones_takes_ids() -> None:
    for engine, name in (("sglang==0.5.16", "Gemma3ForCausalLM"), ("sglang==0.5.22", "Gemma4ForCausalLM")):
        assert _ask(engine, architecture=name, states=(2, 3, 4)).ids == (1, 2, 3)


def test_a_version_that_was_not_run_itself_is_not_verified_live_but_says_which_were() -> None:
    for version, known in (("0.5.10", "executed on stubs"), ("0.5.20", "verified live")):
        told = _ask(f"sglang=={version}", architecture="LlamaForCausalLM", ids=(2, 30, 58))
        assert (told.verified, told.seen_live) == (known, ("0.5.20",))


@pytest.mark.parametrize("engine", ["sglang==0.5.16", "sglang==0.4.7", "vllm==0.33.0", "sglang==0.5.23"])
@pytest.mark.parametrize("architecture", [KIMI, "LlamaForCausalLM"])
@pytest.mark.parametrize("states", [(31, 3, 59), (30, 2, 58)])
def test_no_other_version_is_offered_that_holds_the_one_asked_for_or_reads_no_ids(
    engine: str, architecture: str, states: tuple[int, ...]
) -> None:
    if architecture == KIMI and engine == "sglang==0.4.7":
        return
    asked = engine.partition("==")[2]
    for way in _ask(engine, architecture=architecture, states=states).alternatives:
        assert way.key != NOWHERE or way.kind == "order"
        assert way.versions is None or not covers(way.versions, asked)


def test_whoever_introspects_is_not_told_to(tmp_path: Path) -> None:
    place = str(make_tree(tmp_path))
    told = _ask(None, architecture="LlamaForCausalLM", ids=(2, 30, 58), place=place)
    assert told.engine == "sglang==0.5.99"
    assert not any("--introspect" in item.message for item in told.findings)


def test_a_kind_of_drafter_that_an_engine_has_no_rows_for_is_named() -> None:
    with pytest.raises(HsfError, match="dflash drafters") as caught:
        _ask("tensorrt-llm==1.0", ids=(1, 2), method="dflash")
    assert "()" not in caught.value.message


@pytest.mark.parametrize("ids", [(-1, 2, 30), (2, 30, 300), (2, 2, 30)])
def test_ids_of_which_only_some_are_captured_are_an_error(ids: tuple[int, ...]) -> None:
    """Two states cannot feed an fc that was trained on three."""
    found = _ask(ids=ids)
    assert found.states == (2, 30)
    assert "ids-lost" in _codes(found)
    assert exit_code(found) == 1
    assert exit_code(_ask(ids=(2, 30, 58))) == 0
