"""fix-config as a library: the incident's repair, what it refuses, and what it says."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hsforensics.errors import HsfError
from hsforensics.flows.contract import write_contract
from hsforensics.flows.fix_config import fix_config
from hsforensics.results import FixConfigResult
from tests.incident import (
    DEEPSEEK,
    KIMI,
    LAYERS,
    TRAINED,
    WIDTH,
    channel,
    report,
    with_channels,
    write_config,
    write_weights,
)

OLD, NEW = "sglang==0.5.12.post1", "sglang==0.5.16"
KEY = "eagle_config.eagle_aux_hidden_state_layer_ids"


def _fix(drafter: Path, engine: str | None = NEW, **options: Any) -> FixConfigResult:
    if "report" not in options:
        options = {"wiring": TRAINED, "architecture": KIMI, "layers": LAYERS, **options}
    return fix_config(drafter, engine=engine, **options)


def _codes(result: FixConfigResult) -> list[str]:
    return [item.code for item in result.findings]


def _refused(code: str, drafter: Path, engine: str | None = NEW, **options: Any) -> HsfError:
    with pytest.raises(HsfError) as caught:
        _fix(drafter, engine, **options)
    assert caught.value.code == code
    return caught.value


@pytest.mark.parametrize(
    ("engine", "lines", "before"),
    [
        (OLD, ("-      -1,\n       2,\n-      30\n+      30,\n+      58\n"), None),
        (NEW, ("-      -1,\n-      2,\n-      30\n+      3,\n+      31,\n+      59\n"), (2, 30)),
    ],
)
def test_the_incident_is_repaired_for_each_engine_version_to_the_byte(
    tmp_path: Path, engine: str, lines: str, before: tuple[int, ...] | None
) -> None:
    config = write_config(tmp_path)
    text = config.read_text()
    plan = _fix(tmp_path, engine)
    ids = [2, 30, 58] if engine == OLD else [3, 31, 59]
    assert config.read_text() == text
    assert (plan.pending, plan.written, plan.backup) == (True, False, None)
    assert (plan.before.states, plan.after.states) == (before, TRAINED)
    assert [(e.key, e.before, e.after) for e in plan.edits] == [(KEY, "[-1, 2, 30]", str(ids))]
    head = '--- a/config.json\n+++ b/config.json\n@@ -4,9 +4,9 @@\n   ],\n   "eagle_config": {\n'
    tail = '     ],\n     "use_aux_hidden_state": true\n   },\n'
    assert plan.diff == f'{head}     "eagle_aux_hidden_state_layer_ids": [\n{lines}{tail}'

    done = _fix(tmp_path, engine, write=True)
    shown = "".join(f"      {value},\n" for value in ids).removesuffix(",\n")
    assert config.read_text() == text.replace("      -1,\n      2,\n      30", shown)
    assert (done.pending, done.written, done.edits) == (False, True, plan.edits)
    assert Path(str(done.backup)).read_text() == text

    again = _fix(tmp_path, engine, write=True)
    assert (again.edits, again.diff, again.pending, again.written) == ((), "", False, False)
    assert sorted(os.listdir(tmp_path)) == ["config.json", "config.json.bak"]  # noqa: PTH208


def test_the_reason_names_rule_and_ids_in_plain_words(tmp_path: Path) -> None:
    write_config(tmp_path)
    (edit,) = _fix(tmp_path, OLD).edits
    assert "captures the input of layer id + 1" in edit.reason
    assert "state 3 is written 2" in edit.reason


def test_a_report_gives_wiring_class_and_layers_and_survives_its_own_edit(tmp_path: Path) -> None:
    write_config(tmp_path)
    found = report(drafter_structure_sha256=write_weights(tmp_path), engine="transformers", engine_version="5.24.0")
    done = _fix(tmp_path, report=found, write=True)
    assert (done.wiring, done.after.architecture, done.after.ids) == (TRAINED, KIMI, TRAINED)
    assert "predicted-not-measured" in _codes(done)
    again = _fix(tmp_path, report=found)
    assert (again.edits, again.pending) == ((), False)
    assert "config-serves-trained" in _codes(again)


def test_a_live_report_brings_its_engine_and_an_edit_of_it_is_a_prediction(tmp_path: Path) -> None:
    write_config(tmp_path)
    found = report(served=(2, 30), engine="sglang", engine_version="0.5.16")
    plan = _fix(tmp_path, None, report=found)
    assert plan.after.engine == NEW
    assert "predicted-not-measured" in _codes(plan)  # the rule fits what was measured, but with other ids
    assert "predicted-not-measured" in _codes(_fix(tmp_path, OLD, report=found))


@pytest.mark.parametrize(
    "found",
    [
        report(None),
        report((3, None, 59)),
        with_channels(report(), channel(0, 3), channel(1, 31, "ambiguous"), channel(2, 59)),
        with_channels(report(), channel(0, 3), channel(1, 31), channel(2, None, "unreadable")),
    ],
)
def test_ambiguous_evidence_is_refused_unless_the_wiring_is_named_by_hand(tmp_path: Path, found: Any) -> None:
    config = write_config(tmp_path)
    before = config.read_bytes()
    assert "--wiring" in _refused("evidence-ambiguous", tmp_path, report=found, write=True).remedy
    assert config.read_bytes() == before
    assert _fix(tmp_path, wiring=TRAINED).pending


def test_an_ambiguous_target_channel_does_not_matter(tmp_path: Path) -> None:
    write_config(tmp_path)
    aux = [channel(index, state) for index, state in enumerate(TRAINED)]
    assert _fix(tmp_path, report=with_channels(report(), *aux, channel(3, None, "ambiguous", role="target"))).pending


@pytest.mark.parametrize("weights", [True, False])
def test_a_report_of_another_drafter_is_refused(tmp_path: Path, weights: bool) -> None:
    write_config(tmp_path)
    if weights:
        write_weights(tmp_path)
    found = report(drafter_structure_sha256="0" * 64, drafter_path="other")
    error = _refused("report-foreign", tmp_path, report=found)
    assert error.exit_code == 3
    assert "other" in error.message


@pytest.mark.parametrize("states", [2, 4])
def test_a_wiring_of_another_length_than_fc_is_a_usage_error_naming_both(tmp_path: Path, states: int) -> None:
    write_config(tmp_path)
    write_weights(tmp_path, states)
    error = _refused("usage", tmp_path)
    assert f"has 3 states, but fc.weight takes {states}" in error.message


def test_the_width_of_a_state_is_the_targets_and_not_the_drafters(tmp_path: Path) -> None:
    write_config(tmp_path, hidden_size=2 * WIDTH, target_hidden_size=WIDTH)
    write_weights(tmp_path)
    assert _fix(tmp_path).pending


@pytest.mark.parametrize("both", [True, False])
def test_report_and_wiring_exclude_and_need_each_other(tmp_path: Path, both: bool) -> None:
    write_config(tmp_path)
    options = {"report": report(), "wiring": TRAINED} if both else {"report": None}
    assert ("both" if both else "neither") in _refused("usage", tmp_path, **options).message


def test_missing_engine_or_class_and_contradictory_layers_are_usage_errors(tmp_path: Path) -> None:
    write_config(tmp_path)
    assert _refused("usage", tmp_path, None).where == "--engine"
    assert (
        _refused("usage", tmp_path, None, report=report(engine="transformers", engine_version="5")).where == "--engine"
    )
    assert _refused("usage", tmp_path, architecture=None).where == "--architecture"
    assert "61" in _refused("usage", tmp_path, report=report(), layers=60).message


def test_an_unknown_class_is_refused_but_a_known_class_inside_of_it_is_taken_with_a_caveat(tmp_path: Path) -> None:
    write_config(tmp_path)
    _refused("rule-unknown", tmp_path, architecture="NoSuchForCausalLM")
    plan = _fix(tmp_path, report=report(target_wrapper="NoSuchForConditionalGeneration"))
    assert plan.after.architecture == DEEPSEEK
    assert any("NoSuchForConditionalGeneration" in item.message for item in plan.findings)


@pytest.mark.parametrize("wiring", [(0, 3, 31), (31, 3, 59), (3, 31, "postnorm"), (3, 31, LAYERS)])
def test_what_no_ids_express_is_refused(tmp_path: Path, wiring: tuple[int | str, ...]) -> None:
    write_config(tmp_path)
    _refused("not-expressible", tmp_path, OLD, wiring=wiring)


def test_without_layers_the_wiring_is_written_and_the_gap_is_told(tmp_path: Path) -> None:
    write_config(tmp_path)
    plan = _fix(tmp_path, layers=None)
    assert plan.after.states == TRAINED
    assert any("number of layers is not known" in item.evidence for item in plan.findings)


def test_layers_and_class_come_from_the_target(tmp_path: Path) -> None:
    model, drafter = tmp_path / "model", tmp_path / "drafter"
    model.mkdir()
    drafter.mkdir()
    write_config(drafter)
    inner = {"num_hidden_layers": 61, "hidden_size": WIDTH, "vocab_size": 9, "architectures": [DEEPSEEK]}
    (model / "config.json").write_text(json.dumps({"architectures": [KIMI], "text_config": inner}))
    plan = _fix(drafter, target=model, architecture=None, layers=None)
    assert (plan.after.architecture, plan.provenance.layers) == (KIMI, 61)


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ({"eagle_config": ...}, "eagle_config is absent"),
        ({"eagle_config": None}, "eagle_config is null"),
        ({"eagle_config": []}, "no object"),
        ({"eagle_config": {"use_aux_hidden_state": True}}, "is absent"),
        ({"eagle_config": ..., "eagle_aux_hidden_state_layer_ids": [3, 31, 59]}, "eagle_config is absent"),
    ],
)
def test_ids_that_the_engine_does_not_find_are_an_error_and_are_written_where_it_looks(
    tmp_path: Path, changed: dict[str, Any], detail: str
) -> None:
    config = write_config(tmp_path, **changed)
    old = json.loads(config.read_text())
    absent = next(item for item in _fix(tmp_path).findings if item.code == "ids-absent")
    plan = _fix(tmp_path, write=True)
    assert absent.severity == "error"
    assert detail in absent.evidence
    assert (plan.before.ids, plan.before.states, plan.after.states) == (None, (2, 30, 58), TRAINED)
    new = json.loads(config.read_text())
    assert new.pop("eagle_config")["eagle_aux_hidden_state_layer_ids"] == [3, 31, 59]
    assert new == {key: value for key, value in old.items() if key != "eagle_config"}


def test_top_level_ids_are_left_alone_and_told(tmp_path: Path) -> None:
    write_config(tmp_path, eagle_aux_hidden_state_layer_ids=[3, 31, 59])
    plan = _fix(tmp_path)
    assert [edit.key for edit in plan.edits] == [KEY]
    assert any(item.where == "eagle_aux_hidden_state_layer_ids" for item in plan.findings)


def test_a_default_that_is_right_needs_nothing_but_is_told(tmp_path: Path) -> None:
    write_config(tmp_path, eagle_config={"use_aux_hidden_state": True})
    plan = _fix(tmp_path, wiring=(2, 30, 58))
    assert (plan.edits, plan.pending, plan.before.ids) == ((), False, None)
    assert [(i.code, i.severity) for i in plan.findings if i.code == "ids-absent"] == [("ids-absent", "info")]


@pytest.mark.parametrize(("ids", "engine"), [([1, 29, 57], NEW), ([2, 30, 58], NEW), ([57, 1, 29], OLD)])
def test_any_spelling_that_serves_the_wiring_is_left_alone(tmp_path: Path, ids: list[int], engine: str) -> None:
    write_config(tmp_path, eagle_config={"eagle_aux_hidden_state_layer_ids": ids})
    assert _fix(tmp_path, engine, wiring=(2, 30, 58)).edits == ()


def test_a_switch_that_is_off_is_turned_on_together_with_the_ids(tmp_path: Path) -> None:
    inner = {"eagle_aux_hidden_state_layer_ids": [3, 31, 59], "use_aux_hidden_state": False}
    config = write_config(tmp_path, eagle_config=inner)
    plan = _fix(tmp_path, write=True)
    assert plan.before.states == ("postnorm",)
    assert [(e.key, e.before, e.after) for e in plan.edits] == [("eagle_config.use_aux_hidden_state", "false", "true")]
    assert json.loads(config.read_text())["eagle_config"] == {**inner, "use_aux_hidden_state": True}


def test_a_wrong_count_of_states_is_mended_even_if_the_ids_are_right(tmp_path: Path) -> None:
    write_config(tmp_path, eagle_config={"eagle_aux_hidden_state_layer_ids": [3, 31, 59]}, num_aux_hidden_states=4)
    plan = _fix(tmp_path)
    assert [(e.key, e.before, e.after) for e in plan.edits] == [("num_aux_hidden_states", "4", "3")]


def test_known_traps_of_the_version_are_told(tmp_path: Path) -> None:
    write_config(tmp_path)
    plan = _fix(tmp_path, "sglang==0.5.10.post1")
    assert any(item.code == "rule-caveat" and "CUDA graphs" in item.message for item in plan.findings)


def test_a_link_into_a_cache_is_shown_as_a_diff_but_never_written(tmp_path: Path) -> None:
    blob, drafter = tmp_path / "blobs", tmp_path / "drafter"
    blob.mkdir()
    drafter.mkdir()
    file = write_config(blob)
    before = file.read_bytes()
    (drafter / "config.json").symlink_to(file)
    assert _fix(drafter).pending
    _refused("write-refused", drafter, write=True)
    assert file.read_bytes() == before


def test_crlf_tabs_and_exotic_text_survive_the_edit(tmp_path: Path) -> None:
    head = '{\r\n\t"note": "caf\u00e9 \\u00e9\u2028",\r\n\t"eps": 1e-05,\r\n\t"eagle_config": '
    text = f'{head}{{"eagle_aux_hidden_state_layer_ids": [-1, 2,30]}}\r\n}}'
    (tmp_path / "config.json").write_bytes(text.encode())
    _fix(tmp_path, write=True)
    assert (tmp_path / "config.json").read_bytes() == text.replace("[-1, 2,30]", "[3, 31,59]").encode()


def test_a_copy_elsewhere_has_the_configs_mode_and_no_copies_of_old_bytes(tmp_path: Path) -> None:
    source = tmp_path / "drafter"
    source.mkdir()
    write_config(source).chmod(0o640)
    for name in ("config.json.bak", "config.json.undone", "config.json.undone.1", "tokenizer.json"):
        (source / name).write_text("{}")
    _fix(source, output=tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["config.json", "tokenizer.json"]
    assert stat.S_IMODE((tmp_path / "out" / "config.json").stat().st_mode) == 0o640


def test_a_remedy_names_no_wiring_of_somebody_else(tmp_path: Path) -> None:
    write_config(tmp_path)
    for error in (
        _refused("evidence-ambiguous", tmp_path, report=report(None)),
        _refused("usage", tmp_path, report=None, wiring=None),
    ):
        assert "--wiring STATES" in error.remedy


@pytest.mark.parametrize("command", [fix_config, write_contract])
def test_a_report_of_a_drafter_of_another_width_is_foreign_and_not_the_drafter_unreadable(
    tmp_path: Path, command: Callable[..., object]
) -> None:
    write_config(tmp_path)
    write_weights(tmp_path)
    found = report(hidden_size=WIDTH + 1, drafter_structure_sha256="0" * 64, drafter_path="other")
    options = {"engine": "sglang==0.5.16"} if command is fix_config else {}
    with pytest.raises(HsfError) as caught:
        command(tmp_path, report=found, **options)
    assert caught.value.code == "report-foreign"
    assert "made with other" in caught.value.message
