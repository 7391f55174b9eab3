"""fix-config on a terminal: everything is shown, nothing is obeyed, nothing is cut."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from hsforensics.flows.fix_config import fix_config
from hsforensics.report.console import console
from hsforensics.report.fix_config import check_line, print_fix_config, visible
from hsforensics.results import FixConfigResult
from tests.incident import KIMI, LAYERS, TRAINED, write_config


def _result(directory: Path, **options: Any) -> FixConfigResult:
    return fix_config(
        directory,
        engine="sglang==0.5.16",
        **{"wiring": TRAINED, "architecture": KIMI, "layers": LAYERS, **options},
    )


def _shown(result: FixConfigResult) -> str:
    stream = io.StringIO()
    print_fix_config(result, console(stream))
    return stream.getvalue()


def test_a_pending_change_shows_states_diff_reason_and_the_next_command(tmp_path: Path) -> None:
    write_config(tmp_path)
    result = _result(tmp_path)
    text = _shown(result)
    text = re.sub(r"(?<=[\w,])\n  (?=\w)", " ", text)  # paragraphs are wrapped
    for part in (
        "trained     [3, 31, 59]\n",
        "before      ids [-1, 2, 30]: serves [2, 30] (predicted)\n",
        "after       ids [3, 31, 59]: serves [3, 31, 59] (predicted)\n",
        result.diff,
        "eagle_config.eagle_aux_hidden_state_layer_ids: [-1, 2, 30] -> [3, 31, 59]\n",
        f"because {result.edits[0].reason}",
        "info predicted-not-measured",
        "Nothing is written yet. Next: the same call with write=True",
    ):
        assert part in text
    assert "\x1b" not in text


def test_the_next_command_has_a_line_of_its_own_however_long_it_is(tmp_path: Path) -> None:
    write_config(tmp_path)
    command = f"hsforensics fix-config {'long/' * 40} --write"
    assert _shown(replace(_result(tmp_path), next_commands=(command,))).endswith(f"Next:\n    $ {command}\n")


def test_a_written_change_names_backup_undo_and_next_step(tmp_path: Path) -> None:
    write_config(tmp_path)
    text = _shown(_result(tmp_path, write=True))
    assert f"the old file is {tmp_path}/config.json.bak" in text
    assert f"Undo: hsforensics fix-config {tmp_path}/config.json --undo\n" in text
    assert "restart the engine" in text


def test_nothing_to_do_shows_no_diff(tmp_path: Path) -> None:
    write_config(tmp_path)
    text = _shown(_result(tmp_path, wiring=(2, 30, 58), write=True)) + _shown(_result(tmp_path, wiring=(2, 30, 58)))
    assert text.rstrip().endswith("Nothing to do.")
    assert text.count("--- a/config.json") == 1


def test_an_engine_that_fails_is_said_to_fail(tmp_path: Path) -> None:
    write_config(tmp_path, eagle_config={"eagle_aux_hidden_state_layer_ids": []})
    assert "before      ids []: fails (nothing is captured, and the engine fails at the first" in _shown(
        _result(tmp_path)
    )


def test_control_characters_of_a_strangers_config_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    evil = "\x9b31m \u202e [red]markup[/red] " + "x" * 200
    config.write_text(config.read_text().replace('  "eagle_config"', f'  "note": "{evil}",\n  "eagle_config"'))
    text = _shown(_result(tmp_path))
    assert "\x9b" not in text
    assert "\u202e" not in text
    assert r"\u009b31m \u202e [red]markup[/red] " + "x" * 200 in text


def test_line_feeds_and_tabs_stay_and_the_rest_is_escaped() -> None:
    assert visible("a\n\tb\r\x1b[0m\u2028é") == "a\n\tb\\u000d\\u001b[0m\\u2028é"


def test_check_prints_one_line_either_way(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    pending, right = check_line(_result(tmp_path)), check_line(_result(tmp_path, wiring=(2, 30, 58), write=True))
    assert pending.startswith(f"{config}: change pending for sglang==0.5.16: eagle_config.")
    assert pending.endswith("[-1, 2, 30] -> [3, 31, 59]")
    assert right == f"{config}: nothing to do"
    assert "\n" not in pending + right
