"""``hsforensics contract`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from hsforensics.cli.main import app
from hsforensics.report.schema import json_schema
from tests.incident import KIMI, write_config


def _run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["contract", *map(str, words)])
    return result.exit_code, result.stdout


@pytest.fixture
def drafter(tmp_path: Path) -> Path:
    write_config(tmp_path, eagle_config={"eagle_aux_hidden_state_layer_ids": [2, 30, 58]})
    assert _run("write", tmp_path, "--wiring", "3,31,59", "--layers", 61)[0] == 0
    return tmp_path


@pytest.mark.parametrize(
    ("engine", "code", "said"),
    [("sglang==0.5.12.post1", 0, "Kept"), ("sglang==0.5.16", 1, "Broken: see the findings")],
)
def test_verify_exits_like_every_other_command(drafter: Path, engine: str, code: int, said: str) -> None:
    got, text = _run("verify", drafter, "--engine", engine, "--architecture", KIMI)
    assert got == code
    assert said in text


def test_several_engines_are_checked_at_once_and_one_broken_is_enough(drafter: Path) -> None:
    words = ("--engine", "sglang==0.5.12.post1", "--engine", "vllm==0.33.0", "--architecture", KIMI)
    assert _run("verify", drafter, *words)[0] == 1


@pytest.mark.parametrize("words", [("verify", "--architecture", KIMI, "--engine", "sglang==0.5.16"), ("write",)])
def test_json_follows_the_published_schema(drafter: Path, words: tuple[str, ...]) -> None:
    more = ("--wiring", "3,31,59", "--layers", "61") if words == ("write",) else ()
    data = json.loads(_run(words[0], drafter, *words[1:], *more, "--json")[1])
    jsonschema.validate(data, json_schema("contract"))
    assert data["states"] == [3, 31, 59]


def test_a_wiring_is_needed(tmp_path: Path) -> None:
    write_config(tmp_path)
    result = CliRunner().invoke(app, ["contract", "write", str(tmp_path)])
    assert result.exit_code != 0
