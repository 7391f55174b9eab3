"""An independent, slow reference: drafts one chain at a time as an engine does, with a KV cache that grows by one key.

Shares no code with ``hsforensics.drafter.model``; everything is done in float64 with one vector at a time.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hsforensics.drafter.weights import DrafterWeights


def norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    return x / torch.sqrt((x * x).mean() + eps) * gain.double()


def turned(vector: Tensor, position: int, weights: DrafterWeights) -> Tensor:
    """One head's vector [d], rotated as pairs (i, i + d/2) of complex numbers."""
    half = len(vector) // 2
    plane = torch.complex(vector[:half], vector[half:])
    angle = position * weights.frequencies.double()
    plane = plane * torch.polar(torch.ones_like(angle), angle) * weights.rope_factor
    return torch.cat((plane.real, plane.imag))


class Engine:
    """The drafter at one place of one sequence."""

    def __init__(self, weights: DrafterWeights) -> None:
        self.weights = weights
        self.cache: list[tuple[list[Tensor], list[Tensor]]] = []  # per position: keys and values by kv head

    def fuse(self, channels: list[Tensor]) -> Tensor:
        w = self.weights
        if w.input_norm is not None:
            joined = norm(torch.cat(channels), w.input_norm, w.spec.norm_eps)
        elif w.fc_norms:
            joined = torch.cat([norm(x, g, w.spec.norm_eps) for x, g in zip(channels, w.fc_norms, strict=True)])
        else:
            joined = torch.cat(channels)
        return w.fc.double() @ joined

    def forward(self, token: int, feature: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """One position: appends its key and value; returns (what the next step is fed, logits)."""
        w, spec = self.weights, self.weights.spec
        layer = {name: value.double() for name, value in w.layer.items()}
        normed = norm(feature, layer["hidden_norm"], spec.norm_eps)
        x = torch.cat((norm(w.embedding[token].double(), layer["input_layernorm"], spec.norm_eps), normed))
        d = spec.head_dim
        q, k, v = (layer[f"self_attn.{p}_proj"] @ x for p in "qkv")
        keys = [turned(k[h * d : (h + 1) * d], position, w) for h in range(spec.kv_heads)]
        values = [v[h * d : (h + 1) * d] for h in range(spec.kv_heads)]
        self.cache.append((keys, values))
        heads = []
        for h in range(spec.heads):
            group = h // (spec.heads // spec.kv_heads)
            query = turned(q[h * d : (h + 1) * d], position, w)
            scores = torch.stack([query @ key[group] for key, _ in self.cache]) / math.sqrt(d)
            share = torch.exp(scores - scores.max())
            heads.append(sum(s * value[group] for s, (_, value) in zip(share / share.sum(), self.cache, strict=True)))
        middle = (normed if spec.norm_before_residual else feature) + layer["self_attn.o_proj"] @ torch.cat(heads)
        y = norm(middle, layer["post_attention_layernorm"], spec.norm_eps)
        gate = layer["mlp.gate_proj"] @ y
        out = middle + layer["mlp.down_proj"] @ (gate * torch.sigmoid(gate) * (layer["mlp.up_proj"] @ y))
        final = norm(out, w.norm, spec.norm_eps)
        return (final if spec.norm_output else out), w.head.double() @ final


def draft_logits(
    weights: DrafterWeights, token_ids: list[int], channels: list[list[Tensor]], steps: int, feed: str
) -> dict[tuple[int, int], Tensor]:
    """Logits [D] of every (row, step) with row + step <= T - 1, each chain on a cache of its own."""
    found = {}
    engine = Engine(weights)
    for row in range(len(token_ids) - 1):
        feature, logits = engine.forward(token_ids[row + 1], engine.fuse(channels[row]), row)
        prefix = list(engine.cache)
        found[row, 1] = logits
        for step in range(2, steps + 1):
            if row + step > len(token_ids) - 1:
                break
            token = token_ids[row + step] if feed == "text" else int(weights.target_ids[logits.argmax()])
            feature, logits = engine.forward(token, feature, row + step - 1)
            found[row, step] = logits
        engine.cache = prefix  # the chain's own keys are thrown away, as after a verify step
    return found
