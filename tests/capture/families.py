"""Tiny random models of several families, saved as files; their norms have uneven gains, as trained ones do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

LAYERS, HIDDEN, VOCAB = 3, 32, 64

_COMMON: dict[str, Any] = {
    "bos_token_id": 1,
    "eos_token_id": 2,
    "head_dim": 8,
    "hidden_size": HIDDEN,
    "intermediate_size": 48,
    "max_position_embeddings": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "vocab_size": VOCAB,
}
_EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 4}
_MLA = {
    "first_k_dense_replace": 1,
    "kv_lora_rank": 16,
    "moe_intermediate_size": 16,
    "n_group": 2,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "topk_group": 1,
    "v_head_dim": 8,
}
_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0}}
_EXTRA: dict[str, dict[str, Any]] = {
    "cohere": {},
    "deepseek_v3": _MLA | {"head_dim": 8},
    "gemma3_text": {"sliding_window": 16},
    "gpt_neox": {"use_parallel_residual": True},
    "gpt_oss": _EXPERTS | _ROPE,
    "llama": {},
    "olmo2": {},
    "qwen3": {},
}
_VISION = {
    "hidden_size": 16,
    "image_size": 28,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "patch_size": 14,
}


def save_model(family: str, path: Path, seed: int = 0) -> Path:
    """Write config and weights of a tiny model in fp32; ``gemma3`` is the multimodal wrapper."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(_config(family), dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter += 0.3 * torch.randn_like(parameter)
            else:
                parameter *= 5  # initial weights are so small that every layer would be the identity
    model.save_pretrained(path)
    return path


def _config(family: str) -> Any:
    from transformers import AutoConfig

    if family == "gemma3":
        text = _COMMON | _EXTRA["gemma3_text"] | {"model_type": "gemma3_text"}
        return AutoConfig.for_model("gemma3", text_config=text, vision_config=_VISION)
    return AutoConfig.for_model(family, **(_COMMON | _EXTRA[family]))
