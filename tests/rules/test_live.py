"""The record of live checks: it is that of the live tests, and the tables predict every row of it."""

from __future__ import annotations

import pytest

from hsforensics.rules.forward import states_for
from hsforensics.rules.live import LiveCheck, how_known, live_checks, live_engines, live_loops, versions_seen
from hsforensics.rules.lookup import find_class, find_rule
from tests.sglang.cases import SWEEPS
from tests.sglang.models import LAYERS, TRAINED
from tests.sglang.test_loop import CASES, REFUSED, WHOLE, WIRINGS


def test_the_record_is_that_of_the_live_tests() -> None:
    recorded = {(c.architecture, c.version, c.ids): c.served for c in live_checks()}
    assert recorded == {(*key, ids): served for key, table in SWEEPS.items() for ids, served in table.items()}
    assert {check.layers for check in live_checks()} == {LAYERS}


def test_the_loops_on_record_are_those_of_the_live_tests() -> None:
    found = {(loop.architecture, loop.version): (set(loop.served), set(loop.refused)) for loop in live_loops()}
    assert set(found) == set(CASES)
    for (architecture, version), (served, refused) in found.items():
        assert refused == REFUSED.get(f"{architecture} {version}", set())
        assert served | refused == set(WIRINGS)


def test_the_whole_engines_on_record_are_those_of_the_live_tests() -> None:
    assert [(name, version, states) for _, version, name, _, states in live_engines()] == [
        (*case, TRAINED) for case in WHOLE
    ]


@pytest.mark.parametrize("check", live_checks(), ids=lambda c: f"{c.architecture}-{c.version}-{c.ids}")
def test_the_tables_predict_what_a_real_engine_did(check: LiveCheck) -> None:
    predicted = states_for(check.ids, check.engine, check.version, check.architecture, check.layers)
    assert predicted.states == (None if isinstance(check.served, str) else check.served)
    assert ("no state of the target" in predicted.note) == (check.served == "off-bank")


def test_a_row_counts_as_seen_live_only_for_the_class_and_version_that_was_run() -> None:
    def known(architecture: str, version: str) -> str:
        row, rule = find_class("sglang", version, architecture), find_rule("sglang", version, architecture)
        return how_known(row, rule, version)

    assert known("LlamaForCausalLM", "0.5.20") == known("LlamaForCausalLM", "0.5.23+cu130") == "verified live"
    assert known("LlamaForCausalLM", "0.5.10") == known("LlamaForCausalLM", "0.5.21") == "executed on stubs"
    assert known("Qwen3MoeForCausalLM", "0.5.11") == "executed on stubs"
    assert known("LlamaForCausalLM", "0.4.8") == "executed on stubs"
    assert known("MistralForCausalLM", "0.5.20") == "executed on stubs"
    assert known("DeepseekV3ForCausalLM", "0.5.12.post1") == "verified live"
    assert known("DeepseekV3ForCausalLM", "0.5.15") == "executed on stubs"
    assert known("Gemma3ForCausalLM", "0.5.20") == "verified live"
    row, rule = (
        find_class("sglang", "0.5.23", "DeepseekV3ForCausalLM"),
        find_rule("sglang", "0.5.23", "LlamaForCausalLM"),
    )
    assert versions_seen(row, rule) == ()
