"""The tables against what every release of SGLang answered when its hooks were run on stubs."""

from __future__ import annotations

import json

import pytest

from hsforensics.rules.functions import NO_STATE
from hsforensics.rules.introspect.probe import is_target
from hsforensics.rules.lookup import find_rule, has_rule
from hsforensics.rules.rows import METHODS, IdRule, Method
from hsforensics.rules.scan import SCAN_FILE, Run, load_scan, pack, unpack
from hsforensics.rules.sglang_hooks import STORED_AS_THEY_ARE
from hsforensics.rules.tables import ENGINES, MODEL_CLASSES

SCAN = load_scan()
_LAST = {"IndexError": "crashes", "ValueError": "crashes", "dropped": "lost"}


def _method(run: Run) -> Method:
    (method,) = (name for name in METHODS if name == run.method)
    return method


def _stored(rule: IdRule) -> str:
    if rule.rule in NO_STATE:
        return "plus_one"  # the setter is sound: the fault lies in the forward pass
    return "as_is" if rule.family in STORED_AS_THEY_ARE else rule.rule


@pytest.mark.parametrize("run", SCAN.runs, ids=lambda run: f"{run.architecture}-{run.method}-{run.first}")
def test_the_tables_say_what_the_code_of_every_release_says(run: Run) -> None:
    if run.answer.rule == "unknown":
        assert find_rule("sglang", run.first, run.architecture, _method(run)).verified == "unknown"
        return
    releases = SCAN.releases[SCAN.releases.index(run.first) : SCAN.releases.index(run.last) + 1]
    for version in releases:
        rule = find_rule("sglang", version, run.architecture, _method(run))
        assert _stored(rule) == run.answer.rule, version
        if rule.method == "eagle3":
            assert rule.default == run.answer.default, version
        if (
            rule.rule not in ("fails", "captures_nothing", *NO_STATE)
            and run.answer.top in _LAST
            and rule.last_state != "captured"
        ):
            assert rule.last_state == _LAST[run.answer.top], version


def test_the_tables_name_no_class_before_its_first_release_or_after_its_last() -> None:
    for row in MODEL_CLASSES:
        if row.engine != "sglang":
            continue
        runs = [run for run in SCAN.runs if (run.architecture, run.method) == (row.name, row.method)]
        assert runs, row
        if row.since >= SCAN.releases[0]:
            assert runs[0].first == row.since or row.since < "0.4.9", row
        if row.until is None:
            assert runs[-1].last == SCAN.releases[-1], row


def test_the_newest_release_scanned_is_the_newest_that_the_tables_know() -> None:
    assert SCAN.releases[-1] == ENGINES["sglang"].newest
    assert SCAN.releases[0] == "0.4.9"
    assert len(SCAN.releases) == len(set(SCAN.releases)) >= 52


def test_only_targets_were_scanned_and_each_has_a_row() -> None:
    for run in SCAN.runs:
        assert is_target(run.architecture)
        assert has_rule("sglang", run.architecture, _method(run))


def test_packing_and_unpacking_the_record_changes_nothing() -> None:
    data = json.loads(SCAN_FILE.read_text())
    assert pack(unpack(data)) == data


def test_an_answer_is_found_by_version_and_only_there() -> None:
    found = SCAN.answer("DeepseekV2ForCausalLM", "eagle3", "0.5.12.post1")
    assert found is not None
    assert found.rule == "plus_one"
    assert SCAN.answer("DeepseekV2ForCausalLM", "eagle3", "0.5.4") is None
    assert SCAN.answer("DeepseekV2ForCausalLM", "eagle3", "9.9") is None
