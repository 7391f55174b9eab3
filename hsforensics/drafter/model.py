"""The EAGLE-3 forward in plain torch: what an engine computes token by token, for all rows of a sequence at once.

Row ``t`` starts a chain of draft steps after the target has seen tokens ``0..t`` and chosen token ``t + 1``. Step 1
joins the embedding of token ``t + 1`` with ``fc`` of the channels at row ``t``; step k joins the embedding of token
``t + k`` with the output of step k-1 at the same row. Attention of step k at row ``t`` sees the step-1 keys of rows
``0..t`` and the chain's own keys of steps 2..k, which is the KV cache of an engine that drafts from there. Everything
here can be differentiated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hsforensics.drafter.rope import rotate

if TYPE_CHECKING:
    from torch import Tensor

    from hsforensics.drafter.weights import DrafterWeights

KeyValues: TypeAlias = "tuple[Tensor, Tensor]"
"""Keys and values of one step: [kv_heads, R, d] each."""

_SCORES = 2**23  # attention scores held at once: 32 MB in fp32
_LOGITS = 2**24


@dataclass(frozen=True)
class Draft:
    """Where the chains of all rows stand after one step.

    Attributes:
        step: k, from 1.
        feature: [R, H], what the next step is fed: the layer's output, or its norm with ``norm_output``.
        normed: [R, H], what the head reads.
        prefix: Keys and values of step 1, for rows 0..R1-1.
        own: Keys and values of steps 2..k, for rows 0..R-1.
    """

    step: int
    feature: Tensor
    normed: Tensor
    prefix: KeyValues
    own: tuple[KeyValues, ...] = ()


def rms_norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """``x / RMS(x) * gain`` over the last axis, computed in fp32, in the dtype of ``x``."""
    wide = x.float()
    scale = (wide.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    return (wide * scale).to(x.dtype) * gain


def fuse(weights: DrafterWeights, aux: Tensor) -> Tensor:
    """The channels joined to one feature: [R, n * Ht] -> [R, H], with the norms before ``fc`` where there are any."""
    import torch

    spec = weights.spec
    joined = aux.to(weights.fc.dtype)
    if weights.input_norm is not None:
        joined = rms_norm(joined, weights.input_norm, spec.norm_eps)
    if weights.fc_norms:
        parts = joined.chunk(spec.channels, dim=-1)  # n of [R, Ht]
        normed = [rms_norm(part, gain, spec.norm_eps) for part, gain in zip(parts, weights.fc_norms, strict=True)]
        joined = torch.cat(normed, dim=-1)
    return joined @ weights.fc.T


def first_step(weights: DrafterWeights, tokens: Tensor, aux: Tensor) -> Draft:
    """Step 1 of every row.

    Args:
        weights: The drafter.
        tokens: [R] int64, token ``t + 1`` for each row ``t``.
        aux: [R, n * Ht], the channels of row ``t``, joined in ``fc`` order.
    """
    feature = fuse(weights, aux)
    residual, q, keys = _project(weights, tokens, feature, step=1)
    return _finish(weights, residual, _attend(q, keys, ()), step=1, prefix=keys, own=())


def next_step(weights: DrafterWeights, draft: Draft, tokens: Tensor) -> Draft:
    """Step k + 1 of the first R' rows.

    Args:
        weights: The drafter.
        draft: After step k.
        tokens: [R'] int64, the token that each row's chain takes at position ``t + k + 1``; R' may be less than R.
    """
    rows, step = len(tokens), draft.step + 1
    residual, q, keys = _project(weights, tokens, draft.feature[:rows], step)
    own = (*((k[:, :rows], v[:, :rows]) for k, v in draft.own), keys)
    return _finish(weights, residual, _attend(q, draft.prefix, own), step, draft.prefix, own)


def head_logits(weights: DrafterWeights, normed: Tensor) -> Tensor:
    """Logits over the draft vocabulary: [R, H] -> [R, D]."""
    return normed @ weights.head.T


def choices(weights: DrafterWeights, normed: Tensor) -> Tensor:
    """The target token that each row's step proposes: [R, H] -> [R] int64, -1 where the logits are not finite."""
    import torch

    chosen = []
    for part in torch.split(normed, max(1, _LOGITS // len(weights.head))):  # [C, H]
        best = head_logits(weights, part).float().max(dim=-1)  # NaN wins every maximum
        chosen.append(torch.where(best.values.isfinite(), weights.target_ids[best.indices], -1))
    return torch.cat(chosen) if chosen else normed.new_empty(0, dtype=torch.long)


def _project(weights: DrafterWeights, tokens: Tensor, feature: Tensor, step: int) -> tuple[Tensor, Tensor, KeyValues]:
    """Residual [R, H], queries [heads, R, d], keys and values [kv_heads, R, d] of one step."""
    import torch

    spec, layer = weights.spec, weights.layer
    embedded = weights.embedding[tokens].to(feature.dtype)  # [R, H]
    normed = rms_norm(feature, layer["hidden_norm"], spec.norm_eps)
    joined = torch.cat((rms_norm(embedded, layer["input_layernorm"], spec.norm_eps), normed), dim=-1)  # [R, 2H]
    positions = torch.arange(len(tokens), device=feature.device) + step  # only differences matter
    turn = (positions, weights.frequencies, weights.rope_factor)
    q = rotate(_heads(joined @ layer["self_attn.q_proj"].T, spec.heads), *turn)
    k = rotate(_heads(joined @ layer["self_attn.k_proj"].T, spec.kv_heads), *turn)
    v = _heads(joined @ layer["self_attn.v_proj"].T, spec.kv_heads)
    return (normed if spec.norm_before_residual else feature), q, (k, v)


def _finish(
    weights: DrafterWeights, residual: Tensor, mixed: Tensor, step: int, prefix: KeyValues, own: tuple[KeyValues, ...]
) -> Draft:
    """From attention's output [R, heads * d] to the end of the layer and the final norm."""
    from torch.nn.functional import silu

    spec, layer = weights.spec, weights.layer
    middle = residual + mixed @ layer["self_attn.o_proj"].T  # [R, H]
    x = rms_norm(middle, layer["post_attention_layernorm"], spec.norm_eps)
    gated = silu(x @ layer["mlp.gate_proj"].T) * (x @ layer["mlp.up_proj"].T)  # [R, F]
    out = middle + gated @ layer["mlp.down_proj"].T
    normed = rms_norm(out, weights.norm, spec.norm_eps)
    return Draft(step, normed if spec.norm_output else out, normed, prefix, own)


def _heads(x: Tensor, count: int) -> Tensor:
    """[R, count * d] -> [count, R, d]."""
    return x.reshape(len(x), count, -1).transpose(0, 1)


def _attend(q: Tensor, prefix: KeyValues, own: tuple[KeyValues, ...]) -> Tensor:
    """Attention of every row to the prefix up to itself and to its own chain, a chunk of rows at a time.

    Args:
        q: [heads, R, d].
        prefix: [kv_heads, R1, d] with R1 >= R; row ``t`` sees rows ``0..t``.
        own: One [kv_heads, R, d] for each earlier or present step after the first; row ``t`` sees row ``t``.

    Returns:
        [R, heads * d].
    """
    import torch

    heads, rows, _ = q.shape
    size = max(1, _SCORES // (heads * max(rows, 1)))
    chunks = [_attend_rows(q, prefix, own, low, min(low + size, rows)) for low in range(0, rows, size)]
    mixed = torch.cat(chunks, dim=1) if chunks else q  # [heads, R, d]
    return mixed.transpose(0, 1).flatten(1)


def _attend_rows(q: Tensor, prefix: KeyValues, own: tuple[KeyValues, ...], low: int, high: int) -> Tensor:
    """Rows ``low..high-1`` of ``_attend``: [heads, C, d]."""
    import torch

    groups = prefix[0].shape[0]
    query = q[:, low:high].reshape(groups, -1, high - low, q.shape[-1]) * q.shape[-1] ** -0.5  # [g, heads/g, C, d]
    keys, values = prefix[0][:, None, :high], prefix[1][:, None, :high]  # [g, 1, P, d], P = high
    rows, columns = torch.arange(low, high, device=q.device), torch.arange(high, device=q.device)
    scores = (query @ keys.mT).masked_fill(columns > rows[:, None], -torch.inf)  # [g, heads/g, C, P]
    chain = [(query * k[:, None, low:high]).sum(-1, keepdim=True) for k, _ in own]  # k-1 of [g, heads/g, C, 1]
    share = torch.cat((scores, *chain), dim=-1).float().softmax(dim=-1).to(q.dtype)
    mixed = share[..., :high] @ values  # [g, heads/g, C, d]
    for i, (_, value) in enumerate(own):
        mixed = mixed + share[..., high + i, None] * value[:, None, low:high]
    return mixed.flatten(0, 1)
