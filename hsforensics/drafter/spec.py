"""The shape of a drafter: what its config says about one EAGLE-3 decoder layer, and what its weights say about ``fc``.

Two layouts are read: flat (SpecForge, ModelOpt, SafeAILab) and speculators' (``transformer_layer_config``). Where
config and weights both speak, the weights decide and a contradiction is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hsforensics.drafter.fields import json_object, positive_integer, positive_number, shown, switch, wrong
from hsforensics.drafter.rope import Rope, read_rope
from hsforensics.drafter.tensors import LAYER, UNREADABLE, UNSUPPORTED
from hsforensics.errors import HsfError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_DEFAULT_EPS = 1e-6
_ACTIVATIONS = ("silu", "swish")

Shapes = dict[str, tuple[int, ...]]
"""Canonical tensor name -> shape."""


@dataclass(frozen=True)
class DrafterSpec:
    """Sizes and switches of a drafter with one decoder layer.

    Attributes:
        hidden_size: Width H of the drafter's stream.
        target_hidden_size: Width of one channel, the target's.
        heads: Query heads.
        kv_heads: Key and value heads; divides ``heads``.
        head_dim: Width of a head.
        intermediate_size: Width of the feed-forward.
        norm_eps: Epsilon of every RMS norm.
        rope: Rotary embedding.
        draft_vocab_size: D, rows of the drafter's head; the target's vocabulary where the drafter has no head.
        channels: n, the channels that ``fc`` joins: its input width over ``target_hidden_size``.
        norm_before_residual: The residual is the normed feature, not the raw one.
        input_norm: One RMS norm over the joined channels comes before ``fc``.
        fc_norm: One RMS norm for each channel comes before ``fc``.
        norm_output: The next step is fed the stream after the final norm, not before it.
    """

    hidden_size: int
    target_hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    norm_eps: float
    rope: Rope
    draft_vocab_size: int
    channels: int
    norm_before_residual: bool = False
    input_norm: bool = False
    fc_norm: bool = False
    norm_output: bool = False


def read_spec(config: Mapping[str, Any], shapes: Shapes, vocab_size: int, where: Path) -> DrafterSpec:
    """Read a drafter's shape.

    Args:
        config: The parsed ``config.json``.
        shapes: Shapes of the weights by canonical name.
        vocab_size: The target's, for drafters without a head of their own.
        where: The config file, for messages.

    Raises:
        HsfError: A key is missing or contradicts the weights (``drafter-unreadable``), or means a structure that is
            not evaluated (``drafter-unsupported``).
    """
    layer = config.get("transformer_layer_config", config)
    if not isinstance(layer, dict):
        raise HsfError(UNREADABLE, where, "'transformer_layer_config' is no object", "restore the config")
    hidden = positive_integer(layer, "hidden_size", where)
    target_hidden = positive_integer(config, "target_hidden_size", where, default=hidden)
    heads, kv_heads, head_dim = _heads(layer, hidden, where)
    _check_kind(layer, where)
    return DrafterSpec(
        hidden_size=hidden,
        target_hidden_size=target_hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate_size=positive_integer(layer, "intermediate_size", where),
        norm_eps=positive_number(layer, "rms_norm_eps", where, _DEFAULT_EPS),
        rope=read_rope(layer, where),
        draft_vocab_size=_draft_vocabulary(config, shapes, vocab_size, where),
        channels=_channels(shapes, target_hidden, where),
        norm_before_residual=_flag(config, "norm_before_residual", where),
        input_norm=_norm_present(config, shapes, "norm_before_fc", "input_norm.weight", where),
        fc_norm=_norm_present(config, shapes, "fc_norm", "fc_norm.0.weight", where),
        norm_output=_flag(config, "norm_output", where) or _flag(config, "return_hidden_post_norm", where),
    )


def expected_shapes(spec: DrafterSpec) -> Shapes:
    """Canonical name -> shape of every tensor of the layer, ``fc``, the norms and the head."""
    H, wide = spec.hidden_size, spec.channels * spec.target_hidden_size
    q, kv, F = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim, spec.intermediate_size
    sizes: tuple[tuple[int, ...], ...] = (
        (q, 2 * H), (kv, 2 * H), (kv, 2 * H), (H, q), (F, H), (F, H), (H, F), (H,), (H,), (H,)
    )  # fmt: skip
    shapes: Shapes = {f"layer.{part}.weight": size for part, size in zip(LAYER, sizes, strict=True)}
    shapes |= {"fc.weight": (H, wide), "norm.weight": (H,), "lm_head.weight": (spec.draft_vocab_size, H)}
    if spec.input_norm:
        shapes["input_norm.weight"] = (wide,)
    if spec.fc_norm:
        shapes |= {f"fc_norm.{i}.weight": (spec.target_hidden_size,) for i in range(spec.channels)}
    return shapes


def _heads(layer: Mapping[str, Any], hidden: int, where: Path) -> tuple[int, int, int]:
    """Query heads, key and value heads, and the width of one."""
    heads = positive_integer(layer, "num_attention_heads", where)
    kv_heads = positive_integer(layer, "num_key_value_heads", where, default=heads)
    if heads % kv_heads:
        raise wrong("num_key_value_heads", f"a divisor of num_attention_heads ({heads})", kv_heads, where)
    if layer.get("head_dim") is None and hidden % heads:
        raise wrong("num_attention_heads", f"a divisor of hidden_size ({hidden}) without a head_dim", heads, where)
    head_dim = positive_integer(layer, "head_dim", where, default=hidden // heads)
    if head_dim % 2:
        raise wrong("head_dim", "even, since rotary positions turn pairs", head_dim, where)
    return heads, kv_heads, head_dim


def _channels(shapes: Shapes, target_hidden: int, where: Path) -> int:
    shape = shapes["fc.weight"]
    if shape[1] == 0 or shape[1] % target_hidden:
        got = f"tensor 'fc.weight' is {list(shape)}: its input must be a multiple of the target's width {target_hidden}"
        raise HsfError(UNREADABLE, where, got, "check target_hidden_size in the config")
    return shape[1] // target_hidden


def _draft_vocabulary(config: Mapping[str, Any], shapes: Shapes, vocab_size: int, where: Path) -> int:
    if "lm_head.weight" not in shapes:
        if "d2t" in shapes:
            raise HsfError(UNREADABLE, where, "'d2t' without 'lm_head.weight' maps nothing", "use a whole checkpoint")
        return vocab_size
    rows = shapes["lm_head.weight"][0]
    said = config.get("draft_vocab_size")
    if said is not None and said != rows:
        got = f"tensor 'lm_head.weight' has {rows} rows, but 'draft_vocab_size' is {shown(said)}"
        raise HsfError(UNREADABLE, where, got, "use config and weights of one export")
    return rows


def _check_kind(layer: Mapping[str, Any], where: Path) -> None:
    """Refuse what the weights' names cannot show: another activation, or layers that the weights lack."""
    act = layer.get("hidden_act", "silu")
    if act not in _ACTIVATIONS:
        got = f"'hidden_act' is {shown(act)}, supported is 'silu'"
        raise HsfError(UNSUPPORTED, where, got, "evaluate it with the trainer's own code")
    count = layer.get("num_hidden_layers", 1)
    if count != 1:
        got = f"'num_hidden_layers' is {shown(count)}, supported is 1"
        raise HsfError(UNSUPPORTED, where, got, "evaluate it with the trainer's own code")


def _norm_present(config: Mapping[str, Any], shapes: Shapes, flag: str, tensor: str, where: Path) -> bool:
    """Whether a norm before ``fc`` exists: its weights say so, and an explicit flag must not deny it."""
    stored = tensor in shapes
    said = _value(config, flag, where)
    if said is not None and said != stored:
        got = f"'{flag}' is {str(said).lower()}, but tensor '{tensor}' is {'there' if stored else 'missing'}"
        raise HsfError(UNREADABLE, where, got, "use config and weights of one export")
    return stored


def _value(config: Mapping[str, Any], key: str, where: Path) -> bool | None:
    """A switch at the top level or, as ModelOpt writes it, inside ``eagle_config``."""
    found = switch(config, key, where)
    return switch(json_object(config, "eagle_config", where), key, where) if found is None else found


def _flag(config: Mapping[str, Any], key: str, where: Path) -> bool:
    return bool(_value(config, key, where))
