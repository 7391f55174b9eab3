"""``hsforensics fix-config`` with --output, --undo, --permute-fc, --introspect and several engines."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from hsforensics.cli.main import app
from hsforensics.report.schema import json_schema
from tests.incident import KIMI, WIDTH, write_config
from tests.rules.introspect.engines import LLAMA, make_tree

BASE = ("--wiring", "3,31,59", "--architecture", KIMI, "--layers", "61")
ENGINE = ("--engine", "sglang==0.5.16")


def _run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["fix-config", *map(str, words)])
    return result.exit_code, result.stdout


@pytest.fixture
def drafter(tmp_path: Path) -> Path:
    path = tmp_path / "drafter"
    path.mkdir()
    write_config(path)
    save_file({"fc.weight": torch.randn(WIDTH, 3 * WIDTH)}, path / "model.safetensors")
    return path


def test_two_engines_are_shown_before_and_after_and_written_in_one_go(drafter: Path) -> None:
    code, text = _run(drafter, *BASE, *ENGINE, "--engine", "vllm==0.33.0", "--write")
    assert code == 0
    assert text.count("serves [3, 31, 59]") == 2
    data = json.loads((drafter / "config.json").read_text())
    assert data["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [3, 31, 59]
    assert data["eagle_aux_hidden_state_layer_ids"] == [3, 31, 59]


def test_output_writes_elsewhere_and_undo_takes_a_written_edit_back(drafter: Path, tmp_path: Path) -> None:
    before = (drafter / "config.json").read_bytes()
    code, text = _run(drafter, *BASE, *ENGINE, "--output", tmp_path / "new")
    assert code == 0
    assert "the drafter itself is untouched" in text
    assert (drafter / "config.json").read_bytes() == before
    assert _run(tmp_path / "new", *BASE, *ENGINE, "--check") == (0, f"{tmp_path}/new/config.json: nothing to do\n")
    assert _run(drafter, *BASE, *ENGINE, "--write")[0] == 0
    code, text = _run(drafter, "--undo")
    assert code == 0
    assert "Restored." in text
    assert (drafter / "config.json").read_bytes() == before
    assert _run(drafter, "--undo")[0] != 0


def test_a_permutation_is_proved_and_written(drafter: Path, tmp_path: Path) -> None:
    words = ("--wiring", "31,3,59", "--architecture", KIMI, "--layers", 61, *ENGINE)
    assert _run(drafter, *words)[0] != 0
    code, text = _run(drafter, *words, "--permute-fc", "--output", tmp_path / "new")
    assert code == 0
    assert "now takes   [3, 31, 59]" in text
    assert "all blocks bit-equal" in text


@pytest.mark.parametrize("kind", ["undo-config", "permute-fc", "fix-config"])
def test_json_follows_the_published_schema(drafter: Path, tmp_path: Path, kind: str) -> None:
    if kind == "undo-config":
        _run(drafter, *BASE, *ENGINE, "--write")
        words: tuple[object, ...] = ("--undo",)
    elif kind == "permute-fc":
        words = ("--wiring", "31,3,59", *BASE[2:], *ENGINE, "--permute-fc", "--output", tmp_path / "new")
    else:
        words = (*BASE, *ENGINE, "--engine", "vllm==0.33.0")
    data = json.loads(_run(drafter, *words, "--json")[1])
    jsonschema.validate(data, json_schema(kind))
    assert data["kind"] == kind


@pytest.mark.parametrize(
    "words",
    [
        ("--undo", "--write"),
        ("--undo", "--wiring", "1,2,3"),
        (*BASE, *ENGINE, "--write", "--output", "x"),
        (*BASE, *ENGINE, "--check", "--output", "x"),
        (*BASE, *ENGINE, "--permute-fc"),
    ],
)
def test_options_that_contradict_each_other_are_usage_errors(drafter: Path, words: tuple[str, ...]) -> None:
    before = sorted(drafter.iterdir())
    assert _run(drafter, *words)[0] == 2
    assert sorted(drafter.iterdir()) == before


def test_the_rule_of_the_engines_own_code_is_written_for(drafter: Path, tmp_path: Path) -> None:
    raw = LLAMA.replace("[val + 1 for val in layer_ids]", "list(layer_ids)")
    place = make_tree(tmp_path / "wheel", llama=raw)
    words = (
        "--wiring",
        "3,31,59",
        "--architecture",
        "LlamaForCausalLM",
        "--layers",
        "61",
        "--engine",
        "sglang==0.5.99",
    )
    code, text = _run(drafter, *words, "--introspect", place, "--write")
    assert code == 0
    assert "rule-introspected" in text
    data = json.loads((drafter / "config.json").read_text())
    assert data["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [3, 31, 59]
