"""The reference bank against transformers' own list of hidden states, and against the layers run by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from hsforensics.capture.reference import bank_states, reference_bank, reference_header, reference_request
from hsforensics.capture.transformers_model import ReferenceModel, load_reference, pick_device
from hsforensics.errors import HsfError
from hsforensics.models.target import load_target
from tests.capture.families import HIDDEN, LAYERS, VOCAB, save_model

FAMILIES = ("llama", "qwen3", "gemma3_text", "gemma3", "deepseek_v3", "gpt_oss")
TOKENS = torch.randint(0, VOCAB, (11,), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def path_of(family: str, models: Path) -> Path:
    return models / family if (models / family).exists() else save_model(family, models / family)


def load(family: str, models: Path) -> ReferenceModel:
    return load_reference(load_target(path_of(family, models)), "fp32", "cpu")


def own_states(path: Path) -> tuple[Tensor, ...]:
    """What transformers returns as hidden states: L + 1 of [T, H], the last one after the final norm."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    with torch.no_grad():
        return tuple(state[0] for state in model(TOKENS[None], output_hidden_states=True).hidden_states)


@pytest.mark.parametrize("family", FAMILIES)
def test_states_below_the_last_and_postnorm_equal_transformers_own(family: str, models: Path) -> None:
    bank = reference_bank(load(family, models), TOKENS)
    own = own_states(path_of(family, models))
    assert tuple(bank) == (*range(LAYERS + 1), "postnorm")
    assert len(own) == LAYERS + 1
    for state in range(LAYERS):
        assert torch.equal(bank[state], own[state]), state
    assert torch.equal(bank["postnorm"], own[LAYERS])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_state_is_not_postnorm_but_becomes_it_by_the_final_norm(family: str, models: Path) -> None:
    model = load(family, models)
    bank = reference_bank(model, TOKENS)
    assert (bank[LAYERS] - bank["postnorm"]).norm() > 0.1 * bank["postnorm"].norm()
    with torch.no_grad():
        assert torch.equal(model.norm(bank[LAYERS]), bank["postnorm"])


def run_mlp(layer: Any, middle: Tensor) -> Tensor:
    """What the layer adds to the stream after the middle: [T, H] -> [T, H]."""
    before = getattr(layer, "pre_feedforward_layernorm", layer.post_attention_layernorm)
    with torch.no_grad():
        added = layer.mlp(before(middle[None]))
        added = added[0] if isinstance(added, tuple) else added
        if hasattr(layer, "post_feedforward_layernorm"):
            added = layer.post_feedforward_layernorm(added)
    found: Tensor = added[0]
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_the_middle_state_plus_the_mlp_branch_is_the_next_state(family: str, models: Path) -> None:
    model = load(family, models)
    bank = reference_bank(model, TOKENS, middle=True)
    assert tuple(bank) == (0, "mid:0", 1, "mid:1", 2, "mid:2", 3, "postnorm")
    for index, layer in enumerate(model.layers):
        middle = bank[f"mid:{index}"]
        torch.testing.assert_close(middle + run_mlp(layer, middle), bank[index + 1])
        assert not torch.allclose(middle, bank[index], rtol=0.05)
        assert not torch.allclose(middle, bank[index + 1], rtol=0.05)


@pytest.mark.parametrize("family", ["cohere", "gpt_neox", "olmo2"])
def test_a_class_without_a_middle_state_is_refused_and_its_bank_is_still_right(family: str, models: Path) -> None:
    model = load(family, models)
    with pytest.raises(HsfError, match="no middle state") as caught:
        reference_bank(model, TOKENS, middle=True)
    assert caught.value.code == "target-unreadable"
    bank, own = reference_bank(model, TOKENS), own_states(path_of(family, models))
    assert all(torch.equal(bank[state], own[state]) for state in range(LAYERS))
    assert torch.equal(bank["postnorm"], own[LAYERS])


def test_a_prefix_gives_the_prefix_of_the_states(models: Path) -> None:
    model = load("llama", models)
    whole, part = reference_bank(model, TOKENS), reference_bank(model, TOKENS[:6])
    assert all(torch.allclose(whole[state][:6], part[state], atol=1e-5) for state in whole)


def test_the_bank_keeps_copies_and_leaves_no_hooks(models: Path) -> None:
    model = load("llama", models)
    first = reference_bank(model, TOKENS)
    kept = {state: value.clone() for state, value in first.items()}
    reference_bank(model, TOKENS.flip(0))
    assert all(torch.equal(first[state], kept[state]) for state in first)
    hooked = [
        name for name, module in model.decoder.named_modules() if module._forward_hooks or module._forward_pre_hooks
    ]
    assert hooked == []


def test_bf16_computes_and_stores_bf16(models: Path) -> None:
    model = load_reference(load_target(path_of("llama", models)), "bf16", "cpu")
    bank = reference_bank(model, TOKENS)
    assert {value.dtype for value in bank.values()} == {torch.bfloat16}
    assert reference_header(model).dtype == "bfloat16"


def test_the_header_names_engine_target_and_states(models: Path) -> None:
    import transformers

    header = reference_header(load("gemma3", models), middle=True)
    assert (header.kind, header.engine, header.engine_version) == (
        "reference",
        "transformers",
        transformers.__version__,
    )
    assert header.target_wrapper == "Gemma3ForConditionalGeneration"
    assert (header.layers, header.hidden_size, header.served) == (LAYERS, HIDDEN, 0)
    assert header.states == bank_states(LAYERS, middle=True)


def test_a_request_has_positions_from_zero(models: Path) -> None:
    request = reference_request(load("llama", models), TOKENS)
    assert request.positions.tolist() == list(range(len(TOKENS)))
    assert torch.equal(request.token_ids, TOKENS)


# -- what cannot be loaded -------------------------------------------------------------------------------------------


def refusal(path: Path) -> HsfError:
    with pytest.raises(HsfError) as caught:
        load_reference(load_target(path), "fp32", "cpu")
    assert caught.value.where == str(path)
    return caught.value


def test_a_missing_weight_is_refused_and_not_made_up(tmp_path: Path) -> None:
    path = save_model("llama", tmp_path / "m")
    weights = load_file(path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    error = refusal(path)
    assert error.code == "target-unreadable"
    assert "layers.1.mlp.up_proj" in error.message


def test_a_missing_head_does_not_matter_since_no_logits_are_computed(tmp_path: Path) -> None:
    path = save_model("llama", tmp_path / "m")
    weights = load_file(path / "model.safetensors")
    weights.pop("lm_head.weight")
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    assert len(reference_bank(load_reference(load_target(path), "fp32", "cpu"), TOKENS)) == LAYERS + 2


def test_torn_weights_are_refused(tmp_path: Path) -> None:
    path = save_model("llama", tmp_path / "m")
    (path / "model.safetensors").write_bytes(b"torn")
    assert refusal(path).code == "target-unreadable"


def test_code_in_the_models_directory_is_never_run(tmp_path: Path) -> None:
    path = save_model("llama", tmp_path / "m")
    config = json.loads((path / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}}
    (path / "config.json").write_text(json.dumps(config))
    trace = tmp_path / "ran"
    (path / "evil.py").write_text(f"import pathlib\npathlib.Path({str(trace)!r}).touch()\n")
    assert refusal(path).code == "target-unreadable"
    assert not trace.exists()


def test_an_unknown_device_is_a_usage_error() -> None:
    with pytest.raises(HsfError) as caught:
        pick_device("abacus")
    assert caught.value.code == "usage"
    assert pick_device("cpu").type == "cpu"


def test_without_transformers_the_error_says_what_to_install(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(HsfError, match=r"pip install 'hsforensics\[hf\]'") as caught:
        load_reference(load_target(path_of("llama", models)), "fp32", "cpu")
    assert caught.value.code == "dependency-missing"
