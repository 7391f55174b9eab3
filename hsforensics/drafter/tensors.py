"""The names that trainers give to a drafter's tensors, brought to one spelling; what is not known is refused.

Dialects differ in the layer's name (``midlayer`` or ``layers.0``), in a ``model.`` prefix, and in the names of the
norms before ``fc``. An engine that drops a tensor it does not know serves another drafter than the one trained, so
nothing is dropped here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hsforensics.errors import HsfError

if TYPE_CHECKING:
    from pathlib import Path

    from hsforensics.models.checkpoint import Checkpoint

UNSUPPORTED = "drafter-unsupported"
UNREADABLE = "drafter-unreadable"

LAYER = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
    "input_layernorm",
    "hidden_norm",
    "post_attention_layernorm",
)
"""Parts of the one decoder layer; every one of them is needed."""

_RENAMES = (
    (re.compile(r"^model\."), ""),
    (re.compile(r"^(midlayer|layers\.0)\."), "layer."),
    (re.compile(r"^aux_norm_low\."), "fc_norm.0."),
    (re.compile(r"^aux_norm_mid\."), "fc_norm.1."),
    (re.compile(r"^aux_norm_high\."), "fc_norm.2."),
)

_REQUIRED = ("fc.weight", "norm.weight", *(f"layer.{part}.weight" for part in LAYER))
_OPTIONAL = ("lm_head.weight", "embed_tokens.weight", "d2t", "t2d", "input_norm.weight")
_FC_NORM = re.compile(r"fc_norm\.\d+\.weight")

_REFUSED = (
    (r"layers\.\d+\.", "it has more than one decoder layer"),
    (r"(q_a|q_b|kv_a|kv_b)_(proj|layernorm)", "its attention is MLA (latent keys and values)"),
    (r"[qk]_norm\.", "its attention normalises queries and keys"),
    (r"\.bias$", "it has biases"),
    (r"(scale|zero|qweight|g_idx|packed)", "its weights are quantised"),
    (r"(experts|router|mlp\.gate\.)", "its feed-forward is a mixture of experts"),
)


def canonical_names(checkpoint: Checkpoint) -> dict[str, str]:
    """Map each known tensor to its stored name: ``layer.mlp.up_proj.weight`` -> ``midlayer.mlp.up_proj.weight``.

    Raises:
        HsfError: ``drafter-unsupported`` for a tensor that this version has no use for, ``drafter-unreadable`` for a
            needed one that is missing, or for two tensors that mean the same.
    """
    names: dict[str, str] = {}
    for stored in sorted(checkpoint.tensors):
        name = _rename(stored)
        if name not in _REQUIRED + _OPTIONAL and not _FC_NORM.fullmatch(name):
            raise HsfError(UNSUPPORTED, checkpoint.path, _why(stored, name), "evaluate it with the trainer's own code")
        if name in names:
            twin = f"tensors '{names[name]}' and '{stored}' are the same part of the drafter"
            raise HsfError(UNREADABLE, checkpoint.path, twin, "keep one of them")
        names[name] = stored
    for name in _REQUIRED:
        if name not in names:
            raise missing(checkpoint.path, name)
    return names


def missing(path: Path, name: str) -> HsfError:
    """The error for a needed tensor that is not there, in the spelling that most trainers use."""
    shown = name.replace("layer.", "layers.0.", 1) if name.startswith("layer.") else name
    return HsfError(UNREADABLE, path, f"its weights hold no '{shown}'", "use a whole EAGLE-3 checkpoint")


def _rename(stored: str) -> str:
    name = stored
    for pattern, replacement in _RENAMES:
        name = pattern.sub(replacement, name)
    return name


def _why(stored: str, name: str) -> str:
    reason = next((text for pattern, text in _REFUSED if re.search(pattern, name)), "no EAGLE-3 drafter has it")
    return f"tensor '{stored}' is not supported: {reason}"
