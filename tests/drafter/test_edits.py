"""Which values change, why, and a diff that other tools apply to the byte."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hsforensics.drafter.config import DrafterConfig, parse_drafter_config
from hsforensics.drafter.edits import Change, apply_changes, count_changes, describe, diff_text, ids_changes
from hsforensics.rules.lookup import find_reading

READING = find_reading("sglang", "0.5.16")
KEY = "eagle_config.eagle_aux_hidden_state_layer_ids"


def _config(**data: Any) -> DrafterConfig:
    return parse_drafter_config(Path("config.json"), json.dumps(data).encode())


def test_only_what_differs_changes() -> None:
    config = _config(eagle_config={"eagle_aux_hidden_state_layer_ids": [2, 30, 58]})
    assert ids_changes(config, READING, (2, 30, 58), "") == ()
    assert ids_changes(config, READING, (3, 31, 59), "why") == (Change(KEY, [3, 31, 59], "why"),)


def test_a_switch_that_is_off_is_one_more_change_where_it_is_read() -> None:
    config = _config(eagle_config={"eagle_aux_hidden_state_layer_ids": [2, 30, 58], "use_aux_hidden_state": False})
    assert [c.key for c in ids_changes(config, READING, (2, 30, 58), "")] == ["eagle_config.use_aux_hidden_state"]
    assert ids_changes(config, find_reading("sglang", "0.5.7"), (2, 30, 58), "") == ()


def test_a_wrong_count_changes_but_an_absent_one_is_not_added() -> None:
    config = _config(num_aux_hidden_states=4)
    assert [(c.key, c.value) for c in count_changes(config, READING, 3)] == [("num_aux_hidden_states", 3)]
    assert count_changes(config, READING, 4) == ()
    assert count_changes(_config(), READING, 3) == ()
    assert count_changes(config, find_reading("sglang", "0.5.11"), 3) == ()


def test_records_show_json_before_and_after() -> None:
    config = _config(eagle_config={"use_aux_hidden_state": None})
    changes = (Change(KEY, [2, 30], "a"), Change("eagle_config.use_aux_hidden_state", True, "b"))
    edits = describe(config, changes)
    assert [(e.before, e.after) for e in edits] == [(None, "[2, 30]"), ("null", "true")]


def test_an_engine_that_reads_no_ids_cannot_be_edited_for() -> None:
    with pytest.raises(ValueError, match="no layer ids"):
        ids_changes(_config(), find_reading("sglang", "0.4.7"), (2, 30, 58), "")


def test_equal_texts_have_no_diff() -> None:
    assert diff_text("{}\n", "{}\n", "config.json") == ""


_TEXTS = st.lists(st.sampled_from(["a\n", "b\r\n", "c\n", "\u2028x\n", "\x0c\n", "é\n"]), max_size=5).map("".join)


@given(before=_TEXTS, after=_TEXTS, ends=st.tuples(st.sampled_from(["", "z"]), st.sampled_from(["", "z", "y"])))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_git_applies_the_diff_to_the_byte(tmp_path: Path, before: str, after: str, ends: tuple[str, str]) -> None:
    before, after = before + ends[0] or "x", after + ends[1] or "x"
    if before == after:
        return
    (tmp_path / "config.json").write_bytes(before.encode())
    (tmp_path / "fix.diff").write_bytes(diff_text(before, after, "config.json").encode())
    command = ["git", "apply", "--whitespace=nowarn", "fix.diff"]
    subprocess.run(command, cwd=tmp_path, check=True, env={"PATH": "/usr/bin:/bin", "GIT_CEILING_DIRECTORIES": "/"})
    assert (tmp_path / "config.json").read_bytes() == after.encode()


def test_changes_are_applied_in_order_and_checked() -> None:
    text = '{\n  "eagle_config": null\n}\n'
    changes = (Change(KEY, [2, 30, 58], ""), Change("eagle_config.use_aux_hidden_state", True, ""))
    inner = {"eagle_aux_hidden_state_layer_ids": [2, 30, 58], "use_aux_hidden_state": True}
    assert json.loads(apply_changes(text, changes)) == {"eagle_config": inner}
