"""Random drafters in every dialect, as files, for the synthetic world of ``tests.world``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from hsforensics.drafter.rope import Rope, inverse_frequencies
from hsforensics.drafter.spec import DrafterSpec, expected_shapes
from hsforensics.drafter.tensors import LAYER
from hsforensics.drafter.weights import DrafterWeights
from tests.world import HIDDEN, VOCAB

DRAFT_VOCAB = 41
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "hidden_size": HIDDEN,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 80,
    "num_hidden_layers": 1,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500.0,
    "max_position_embeddings": 256,
    "vocab_size": VOCAB,
    "draft_vocab_size": DRAFT_VOCAB,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def make_spec(**changes: Any) -> DrafterSpec:
    """The spec that ``CONFIG`` describes, with three channels."""
    sizes: dict[str, Any] = {
        "hidden_size": HIDDEN,
        "target_hidden_size": HIDDEN,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 16,
        "intermediate_size": 80,
        "norm_eps": 1e-5,
        "rope": Rope(500.0, None, 256),
        "draft_vocab_size": DRAFT_VOCAB,
        "channels": 3,
    }
    return DrafterSpec(**(sizes | changes))


def make_tensors(spec: DrafterSpec, seed: int = 0) -> dict[str, Tensor]:
    """Random weights by canonical name, with a draft vocabulary of every second token of the first 2 * D."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in expected_shapes(spec).items():
        noise = torch.randn(shape, generator=generator)
        tensors[name] = 1 + 0.2 * noise if len(shape) == 1 else noise * shape[1] ** -0.5
    tensors["d2t"] = torch.arange(spec.draft_vocab_size)  # draft token i is target token 2 i
    return tensors


def make_weights(spec: DrafterSpec, embedding: Tensor, seed: int = 0) -> DrafterWeights:
    """The same weights as an object, without files."""
    tensors = make_tensors(spec, seed)
    frequencies, factor = inverse_frequencies(spec.rope, spec.head_dim, Path("config.json"))
    return DrafterWeights(
        spec=spec,
        layer={part: tensors[f"layer.{part}.weight"] for part in LAYER},
        fc=tensors["fc.weight"],
        norm=tensors["norm.weight"],
        head=tensors["lm_head.weight"],
        embedding=embedding,
        target_ids=torch.arange(spec.draft_vocab_size) + tensors["d2t"],
        frequencies=frequencies,
        rope_factor=factor,
        input_norm=tensors.get("input_norm.weight"),
        fc_norms=tuple(tensors[f"fc_norm.{i}.weight"] for i in range(spec.channels)) if spec.fc_norm else (),
    )


def write_drafter(
    path: Path,
    tensors: Mapping[str, Tensor] | None = None,
    config: Mapping[str, Any] = CONFIG,
    layer: str = "midlayer",
    prefix: str = "",
) -> Path:
    """A drafter's directory; canonical names are spelt with the given layer name and prefix."""
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(dict(config)))
    named = make_tensors(make_spec()) if tensors is None else tensors
    save_file({prefix + spell(name, layer): value.clone() for name, value in named.items()}, path / "w.safetensors")
    return path


def spell(name: str, layer: str) -> str:
    """``layer.mlp.up_proj.weight`` -> ``midlayer.mlp.up_proj.weight``."""
    return f"{layer}.{name.removeprefix('layer.')}" if name.startswith("layer.") else name
