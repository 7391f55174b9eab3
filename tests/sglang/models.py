"""Tiny random targets of six classes, EAGLE-3 drafters for them, and dumps whose wiring is known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

LAYERS, HIDDEN, VOCAB = 8, 64, 512
TRAINED = (2, 3, 4)
"""States in every dump, before postnorm."""

_COMMON: dict[str, Any] = {
    "bos_token_id": 256,
    "eos_token_id": 257,
    "hidden_size": HIDDEN,
    "intermediate_size": 128,
    "max_position_embeddings": 512,
    "num_attention_heads": 4,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": 2,
    "pad_token_id": 257,
    "tie_word_embeddings": False,
    "vocab_size": VOCAB,
}
_EXPERTS = {"moe_intermediate_size": 64, "num_experts": 8, "num_experts_per_tok": 2, "norm_topk_prob": True}
_GLM = {"n_group": 1, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "topk_group": 1}
_YARN = {
    "beta_fast": 32,
    "beta_slow": 1,
    "factor": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "rope_type": "yarn",
    "type": "yarn",
}
# The attention stand-in tells the wide form of latent attention from the narrow one by its width: 32 against 48.
_MLA = {
    "first_k_dense_replace": 1,
    "kv_lora_rank": 32,
    "moe_intermediate_size": 64,
    "n_group": 2,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "num_key_value_heads": 4,
    "q_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "topk_group": 1,
    "v_head_dim": 16,
}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "LlamaForCausalLM": ("llama", {}),
    "DeepseekV3ForCausalLM": ("deepseek_v3", _MLA),
    "Qwen3MoeForCausalLM": ("qwen3_moe", {"head_dim": 16, "decoder_sparse_step": 1, **_EXPERTS}),
    "GptOssForCausalLM": (
        "gpt_oss",
        {"head_dim": 16, "intermediate_size": 64, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "Gemma3ForCausalLM": ("gemma3_text", {"head_dim": 16, "tie_word_embeddings": True}),
    "Glm4MoeForCausalLM": ("glm4_moe", {"head_dim": 16, "first_k_dense_replace": LAYERS, **_GLM}),
}
"""Model class -> (model type, what its config needs beside the common part)."""

# Keys that SGLang reads and transformers does not write.
_ADDED: dict[str, dict[str, Any]] = {
    "DeepseekV3ForCausalLM": {
        "aux_loss_alpha": 0.001,
        "ep_size": 1,
        "moe_layer_freq": 1,
        "num_nextn_predict_layers": 0,
        "pretraining_tp": 1,
        "rope_parameters": _YARN,
        "rope_scaling": _YARN,
        "scoring_func": "sigmoid",
        "seq_aux": True,
        "topk_method": "noaux_tc",
    },
    "GptOssForCausalLM": {"swiglu_limit": 7.0},
}


def save_target(architecture: str, path: Path, seed: int = 0, *, narrow: bool = False) -> Path:
    """Write a random target in fp32, whose layers matter, with a tokenizer of bytes.

    Args:
        architecture: A key of ``FAMILIES``.
        path: Directory to create.
        seed: Of the weights.
        narrow: Latent attention with equal widths of both forms, which the ``torch_native`` backend needs.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    family, extra = FAMILIES[architecture]
    torch.manual_seed(seed)
    latent = {"kv_lora_rank": 16} if narrow and family == "deepseek_v3" else {}
    config = AutoConfig.for_model(family, **(_COMMON | extra | latent))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.15)
    model.save_pretrained(path)
    _merge(path / "config.json", _ADDED.get(architecture, {}))
    _save_tokenizer(path)
    return path


def _merge(file: Path, keys: dict[str, Any]) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | keys, indent=1))


def _save_tokenizer(path: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={char: number for number, char in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=inner, **names).save_pretrained(path)


def save_drafter(path: Path, ids: Sequence[int] | None, *, slots: int | None = None, seed: int = 1) -> Path:
    """Write a random EAGLE-3 drafter whose config asks for these layer ids (``None``: it names none)."""
    from safetensors.torch import save_file

    slots = slots or len(ids or TRAINED)
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.1

    heads, key_heads, inner = HIDDEN, HIDDEN // 2, 128
    layer = {
        "hidden_norm": torch.ones(HIDDEN),
        "input_layernorm": torch.ones(HIDDEN),
        "mlp.down_proj": normal(HIDDEN, inner),
        "mlp.gate_proj": normal(inner, HIDDEN),
        "mlp.up_proj": normal(inner, HIDDEN),
        "post_attention_layernorm": torch.ones(HIDDEN),
        "self_attn.k_proj": normal(key_heads, 2 * HIDDEN),
        "self_attn.o_proj": normal(HIDDEN, heads),
        "self_attn.q_proj": normal(heads, 2 * HIDDEN),
        "self_attn.v_proj": normal(key_heads, 2 * HIDDEN),
    }
    weights = {f"midlayer.{name}.weight": value for name, value in layer.items()}
    weights |= {"fc.weight": normal(HIDDEN, slots * HIDDEN), "norm.weight": torch.ones(HIDDEN)}
    weights |= {"lm_head.weight": normal(VOCAB, HIDDEN), "d2t": torch.zeros(VOCAB, dtype=torch.int64)}
    weights |= {"t2d": torch.ones(VOCAB, dtype=torch.bool)}
    path.mkdir(parents=True)
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    (path / "config.json").write_text(json.dumps(_drafter_config(ids), indent=1))
    return path


def _drafter_config(ids: Sequence[int] | None) -> dict[str, Any]:
    named = {} if ids is None else {"eagle_config": {"eagle_aux_hidden_state_layer_ids": list(ids)}}
    return {
        **_COMMON,
        "architectures": ["LlamaForCausalLMEagle3"],
        "attention_bias": False,
        "draft_vocab_size": VOCAB,
        "head_dim": 16,
        "hidden_act": "silu",
        "model_type": "llama",
        "num_hidden_layers": 1,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "target_hidden_size": HIDDEN,
        "torch_dtype": "float32",
        **named,
    }


def sequences(count: int = 5, seed: int = 3) -> list[torch.Tensor]:
    """Token ids [T] of a few short sequences, all different from the first token on."""
    generator = torch.Generator().manual_seed(seed)
    tails = [torch.randint(0, 250, (11 + 3 * index,), generator=generator) for index in range(count)]
    return [torch.cat([torch.tensor([256, index]), tail]) for index, tail in enumerate(tails)]


def save_dump(path: Path, target: Path) -> Path:
    """A dump of ``sequences`` with the states that transformers computes."""
    from hsforensics.capture.reference import reference_bank
    from hsforensics.capture.transformers_model import load_reference
    from hsforensics.models.target import load_target

    model = load_reference(load_target(target), "fp32", "cpu")
    return write_dump(path, [(token_ids, reference_bank(model, token_ids)) for token_ids in sequences()])


def write_dump(path: Path, banks: Sequence[tuple[torch.Tensor, Mapping[Any, torch.Tensor]]]) -> Path:
    """Speculators 0.3 files with states ``TRAINED`` and postnorm, labelled wrongly.

    The label claims the embedding for the first channel, as the incident's did.
    """
    path.mkdir(parents=True)
    for index, (token_ids, bank) in enumerate(banks):
        values = [bank[state].clone() for state in (*TRAINED, "postnorm")]
        sample = {"input_ids": token_ids, "hidden_states": values, "loss_mask": torch.ones_like(token_ids)}
        torch.save(sample, path / f"data_{index}.pt")
    claimed = [-1, *(state - 1 for state in TRAINED[1:]), LAYERS - 1]
    (path / "data_config.json").write_text(json.dumps({"hidden_states": {"layer_ids": claimed}}))
    return path
