"""Configs of every layout: which key which engine reads, and what happens when they disagree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hsforensics.drafter.config import DrafterConfig, parse_drafter_config, predict_with
from hsforensics.drafter.keys import ids_keys, layout_of, method_of
from hsforensics.errors import HsfError
from hsforensics.flows.fix_config import fix_config
from hsforensics.flows.key_conflicts import key_conflicts
from hsforensics.rules.forward import find_serving
from hsforensics.rules.lookup import parse_engine
from hsforensics.rules.rows import Method
from tests.incident import KIMI, TRAINED, report, write_config, write_weights

NESTED = {"eagle_aux_hidden_state_layer_ids": [1, 29, 57]}
BOTH = {"eagle_config": NESTED, "eagle_aux_hidden_state_layer_ids": [2, 30, 58]}
SPECULATORS = {
    "architectures": ["Eagle3Speculator"],
    "speculators_model_type": "eagle3",
    "transformer_layer_config": {"hidden_size": 4},
    "eagle_aux_hidden_state_layer_ids": [2, 30, 58],
}
DFLASH = {"architectures": ["DFlashDraftModel"], "dflash_config": {"target_layer_ids": [1, 29, 57]}}
SPECULATORS_DFLASH = {
    "architectures": ["SomeDraftModel"],
    "speculators_model_type": "dflash",
    "transformer_layer_config": {"hidden_size": 4},
    "aux_hidden_state_layer_ids": [3, 17, 30],
}
DSPARK = {"architectures": ["DSparkModel"], "dspark_target_layer_ids": [1, 29, 57]}


def _config(data: dict[str, Any]) -> DrafterConfig:
    return parse_drafter_config(Path("config.json"), json.dumps(data).encode())


@pytest.mark.parametrize(
    ("data", "engine", "architecture", "states"),
    [
        ({"eagle_config": NESTED}, "sglang==0.5.16", KIMI, (2, 30, 58)),
        ({"eagle_config": NESTED}, "vllm-v1==0.24.0", KIMI, (1, 29, 57)),
        ({"eagle_config": NESTED}, "vllm==0.33.0", KIMI, (2, 30, 58)),  # never read: the default, by luck
        ({"eagle_aux_hidden_state_layer_ids": [3, 31, 59]}, "sglang==0.5.16", KIMI, (2, 30, 58)),
        ({"eagle_aux_hidden_state_layer_ids": [3, 31, 59]}, "vllm==0.12.0", KIMI, (3, 31, 59)),
        ({"eagle_aux_hidden_state_layer_ids": [3, 31, 59]}, "vllm==0.11.0", KIMI, (2, 30, 58)),
        (BOTH, "sglang==0.5.12.post1", KIMI, (2, 30, 58)),
        (BOTH, "vllm==0.33.0", KIMI, (2, 30, 58)),
        (SPECULATORS, "vllm==0.33.0", KIMI, (2, 30, 58)),
        ({"eagle_aux_hidden_state_layer_ids": []}, "vllm==0.33.0", KIMI, (2, 30, 58)),  # empty counts as absent
        ({"eagle_aux_hidden_state_layer_ids": "x", "eagle_config": NESTED}, "vllm-v1==0.24.0", KIMI, (1, 29, 57)),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": []}}, "sglang==0.5.16", KIMI, None),
        (DFLASH, "sglang==0.5.16", KIMI, (2, 30, 58)),
        (DFLASH, "vllm==0.21.0", "LlamaForCausalLM", (1, 29, 57)),
        (DFLASH, "vllm==0.24.0", "LlamaForCausalLM", (2, 30, 58)),
        ({"target_layer_ids": [1, 29, 57], "dflash_config": {}}, "sglang==0.5.16", KIMI, (2, 30, 58)),
        (DSPARK, "sglang==0.5.16", "DeepseekV4ForCausalLM", (2, 30, 58)),
        ({"eagle_config": NESTED}, "tensorrt-llm==1.0", KIMI, (2, 30, 58)),  # an argument decides, not the config
    ],
)
def test_every_layout_is_read_as_each_engine_reads_it(
    data: dict[str, Any], engine: str, architecture: str, states: tuple[int, ...] | None
) -> None:
    config = _config(data)
    serving = find_serving(parse_engine(engine), architecture, 61, method_of(config))
    assert predict_with(serving, config).states == states


@pytest.mark.parametrize(
    ("data", "method", "layout", "keys"),
    [
        ({}, "eagle3", "flat", 0),
        (BOTH, "eagle3", "flat", 2),
        (SPECULATORS, "eagle3", "speculators", 1),
        (DFLASH, "dflash", "flat", 1),
        (DSPARK, "dspark", "flat", 1),
        ({"auto_map": {"AutoModel": "evil.Model"}}, "eagle3", "flat, with remote code (never executed here)", 0),
        ({"aux_hidden_states_layer_ids": [1]}, "eagle3", "flat", 1),
    ],
)
def test_kind_layout_and_keys_are_recognised(data: dict[str, Any], method: Method, layout: str, keys: int) -> None:
    config = _config(data)
    assert (method_of(config), layout_of(config), len(ids_keys(config))) == (method, layout, keys)


def test_keys_that_agree_are_an_info_and_keys_that_do_not_a_warning_with_both_engines() -> None:
    (agreed,) = key_conflicts(_config(BOTH), KIMI, 61)
    assert agreed.severity == "info"
    (fought,) = key_conflicts(
        _config({**BOTH, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [3, 9, 9]}}), KIMI, 61
    )
    assert fought.severity == "warning"
    assert "sglang==0.5.23 reads [3, 9, 9]" in fought.message
    assert "vllm-v2==0.33.0 reads [2, 30, 58]" in fought.message
    assert key_conflicts(_config({"eagle_config": NESTED}), KIMI, 61) == []


def test_a_speculators_layout_for_sglang_is_told(tmp_path: Path) -> None:
    write_config(tmp_path, **SPECULATORS, eagle_config=NESTED)
    found = fix_config(tmp_path, engine="sglang==0.5.16", wiring=TRAINED, architecture=KIMI, layers=61).findings
    assert "layout-unread" in [item.code for item in found]


def test_a_dflash_drafter_is_written_where_its_engines_read(tmp_path: Path) -> None:
    write_config(tmp_path, **DFLASH, eagle_config=...)
    done = fix_config(
        tmp_path, engine=("sglang==0.5.16", "vllm==0.33.0"), wiring=TRAINED, architecture=KIMI, layers=61, write=True
    )
    assert [edit.key for edit in done.edits] == ["dflash_config.target_layer_ids"]
    assert json.loads((tmp_path / "config.json").read_text())["dflash_config"] == {"target_layer_ids": [2, 30, 58]}


def test_a_report_of_weights_that_were_trained_on_since_is_refused(tmp_path: Path) -> None:
    write_config(tmp_path)
    structure = write_weights(tmp_path)
    found = report(drafter_structure_sha256=structure, drafter_weights_sha256="0" * 64)
    with pytest.raises(HsfError, match="other values") as caught:
        fix_config(tmp_path, engine="sglang==0.5.16", report=found)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("version", ["0.20.2", "0.22.1", "0.24.0", "0.33.0"])
@pytest.mark.parametrize("runner", ["vllm", "vllm-v1", "vllm-v2"])
def test_the_speculators_loader_takes_dflash_ids_for_states_and_overwrites_the_nested_ones(
    runner: str, version: str
) -> None:
    for extra in ({}, {"dflash_config": {"target_layer_ids": [1, 2, 3]}}):
        config = _config({**SPECULATORS_DFLASH, **extra})
        serving = find_serving(parse_engine(f"{runner}=={version}"), "LlamaForCausalLM", 36, method_of(config))
        assert predict_with(serving, config).states == (3, 17, 30)


def test_the_speculators_loader_takes_dspark_ids_for_states() -> None:
    config = _config({**SPECULATORS_DFLASH, "speculators_model_type": "dspark"})
    serving = find_serving(parse_engine("vllm==0.33.0"), "LlamaForCausalLM", 36, method_of(config))
    assert (serving.method, predict_with(serving, config).states) == ("dspark", (3, 17, 30))


def test_a_dflash_key_that_only_the_loader_reads_means_nothing_in_a_flat_config() -> None:
    config = _config({"architectures": ["DFlashDraftModel"], "aux_hidden_state_layer_ids": [3, 17, 30]})
    serving = find_serving(parse_engine("vllm-v1==0.24.0"), "LlamaForCausalLM", 36, method_of(config))
    assert predict_with(serving, config).states is None


@pytest.mark.parametrize("version", ["0.20.2", "0.24.0", "0.33.0"])
@pytest.mark.parametrize(("wiring", "pending"), [((3, 17, 30), False), ((4, 18, 31), True)])
def test_a_speculators_dflash_drafter_is_written_under_the_key_that_its_loader_reads(
    tmp_path: Path, version: str, wiring: tuple[int, ...], pending: bool
) -> None:
    write_config(tmp_path, **SPECULATORS_DFLASH, eagle_config=...)
    options: dict[str, Any] = {"architecture": "LlamaForCausalLM", "layers": 36, "wiring": wiring}
    plan = fix_config(tmp_path, engine=f"vllm=={version}", **options)
    assert (plan.before.states, plan.after.states, plan.pending) == ((3, 17, 30), wiring, pending)
    assert [edit.key for edit in plan.edits] == ["aux_hidden_state_layer_ids"] * pending
    fix_config(tmp_path, engine=f"vllm=={version}", write=True, **options)
    assert json.loads((tmp_path / "config.json").read_text())["aux_hidden_state_layer_ids"] == list(wiring)
    assert not fix_config(tmp_path, engine=f"vllm=={version}", **options).pending


def test_keys_that_agree_only_because_aux_states_are_off_are_a_warning() -> None:
    off = {"eagle_aux_hidden_state_layer_ids": [3, 9, 9], "use_aux_hidden_state": False}
    (fought,) = key_conflicts(_config({**BOTH, "eagle_config": off}), KIMI, 61)
    assert fought.severity == "warning"
    assert "only because eagle_config.use_aux_hidden_state is off" in fought.message
    (agreed,) = key_conflicts(_config({**BOTH, "eagle_config": {**NESTED, "use_aux_hidden_state": False}}), KIMI, 61)
    assert agreed.severity == "info"


def test_an_engine_that_serves_no_state_is_said_to_and_why() -> None:
    (found,) = key_conflicts(_config(BOTH), "Gemma3ForCausalLM", 34)
    assert "unknown" not in found.message
    assert (
        "and serves no state of the target (what is served is the layer's output without the residual" in found.message
    )
    failing = {**BOTH, "eagle_config": {"eagle_aux_hidden_state_layer_ids": []}}
    (found,) = key_conflicts(_config(failing), KIMI, 61)
    assert "reads [] and fails (nothing is captured" in found.message
