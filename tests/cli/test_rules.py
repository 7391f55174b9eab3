"""``hsforensics rules`` on the command line: streams, exit codes, JSON."""

from __future__ import annotations

import json

import jsonschema
import pytest
from typer.testing import CliRunner

from hsforensics.cli.main import app
from hsforensics.report.schema import json_schema
from hsforensics.rules.functions import MEANINGS, RULES

BASE = ["rules", "--architecture", "KimiK25ForConditionalGeneration", "--layers", "61"]


def _run(*words: str, engine: str = "sglang==0.5.16") -> tuple[int, str]:
    result = CliRunner().invoke(app, [*BASE, "--engine", engine, *words])
    return result.exit_code, result.stdout


@pytest.mark.parametrize(
    ("words", "engine", "code", "said"),
    [
        (("--ids", "2,30,58"), "sglang==0.5.16", 0, "ids [2, 30, 58] serve [2, 30, 58]"),
        (("--ids", "-1,2,30"), "sglang==0.5.12.post1", 1, "the engine fails"),
        (("--states", "3,31,59"), "sglang==0.5.12.post1", 0, "for [3, 31, 59] write [2, 30, 58]"),
        (("--states", "3,31,61"), "sglang==0.5.16", 3, "cannot be asked for here"),
        ((), "sglang==0.5.16", 0, "without ids: its default serves [2, 30, 58]"),
    ],
)
def test_the_exit_code_says_whether_there_is_an_answer(
    words: tuple[str, ...], engine: str, code: int, said: str
) -> None:
    got, text = _run(*words, engine=engine)
    assert got == code
    assert said in text


@pytest.mark.parametrize("words", [("--ids", "2,x"), ("--states", "-3"), ("--ids", ""), ("--method", "eagle9")])
def test_words_that_are_no_ids_are_a_usage_error(words: tuple[str, ...]) -> None:
    assert _run(*words)[0] == 2


@pytest.mark.parametrize("words", [("--ids", "2,30,58"), ("--states", "3,31,59"), ("--states", "3,31,61")])
def test_json_follows_the_published_schema(words: tuple[str, ...]) -> None:
    data = json.loads(_run(*words, "--json")[1])
    jsonschema.validate(data, json_schema("rules"))
    assert data["kind"] == "rules"
    if words[0] == "--states":
        assert data["expressible"] is (words[1] == "3,31,59")
        assert all(way["ids"] for way in data["alternatives"])


def test_an_engine_that_reads_no_ids_serves_its_default_and_nothing_is_written_nowhere() -> None:
    _, text = _run("--states", "30,2,58", "--architecture", "LlamaForCausalLM", engine="sglang==0.4.7")
    assert "its default serves [2, 30, 58]" in text
    assert "in nowhere" not in text


def test_a_version_that_was_not_run_is_shown_with_those_that_were() -> None:
    _, text = _run("--ids", "2,30,58", "--architecture", "LlamaForCausalLM", engine="sglang==0.5.10")
    assert "executed on stubs (this rule was seen live in 0.5.20)" in text


@pytest.mark.parametrize(
    ("engine", "architecture", "means"),
    [
        ("sglang==0.5.16", "LlamaForCausalLM", "an id names the layer whose output is wanted: state id + 1"),
        (
            "sglang==0.5.16",
            "KimiK25ForConditionalGeneration",
            "unless the list starts with 1: then every id means id + 1",
        ),
        ("sglang==0.5.20", "Gemma3ForCausalLM", "no state of the target, whatever the ids"),
        ("sglang==0.4.7", "LlamaForCausalLM", "the engine never looks at ids"),
    ],
)
def test_a_rule_is_explained_in_plain_words(engine: str, architecture: str, means: str) -> None:
    _, text = _run("--ids", "2,5,8", "--architecture", architecture, engine=engine)
    (line,) = [line for line in text.splitlines() if line.startswith("means ")]
    assert means in line


def test_every_rule_has_a_meaning() -> None:
    assert set(MEANINGS) == set(RULES)
