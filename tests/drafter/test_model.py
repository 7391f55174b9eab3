"""The parallel forward is the engine's, its parts are Llama's, and it can be trained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import hsforensics.drafter.model as model
from hsforensics.drafter.evaluate import draft_choices
from hsforensics.drafter.model import choices, first_step, head_logits, next_step
from hsforensics.drafter.rope import Rope
from hsforensics.drafter.weights import DrafterWeights
from tests.drafter.engine import draft_logits
from tests.drafter.makers import LLAMA3, make_spec, make_weights
from tests.world import HIDDEN, VOCAB

T, STEPS = 14, 4
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no-gqa": {"kv_heads": 4},
    "wide-heads": {"head_dim": 24},
    "llama3-rope": {"rope": Rope(500.0, LLAMA3, 256)},
    "yarn-rope": {"rope": Rope(500.0, {"rope_type": "yarn", "factor": 4.0}, 64)},
    "norm-before-residual": {"norm_before_residual": True},
    "input-norm": {"input_norm": True},
    "fc-norm": {"fc_norm": True, "channels": 4},
    "norm-output": {"norm_output": True},
    "one-channel": {"channels": 1},
}


def sequence(channels: int, seed: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Embedding [V, H], tokens [T], channels [T, n * H]."""
    generator = torch.Generator().manual_seed(seed)
    embedding = torch.randn(VOCAB, HIDDEN, generator=generator)
    tokens = torch.randint(0, VOCAB, (T,), generator=generator)
    return embedding, tokens, 3 * torch.randn(T, channels * HIDDEN, generator=generator)


def all_logits(weights: DrafterWeights, tokens: Tensor, aux: Tensor, feed: str) -> list[Tensor]:
    draft = first_step(weights, tokens[1:], aux[:-1])
    found = [head_logits(weights, draft.normed)]
    for step in range(2, STEPS + 1):
        text = tokens[step:]
        own = choices(weights, draft.normed)[: len(text)]
        draft = next_step(weights, draft, text if feed == "text" else own)
        found.append(head_logits(weights, draft.normed))
    return found


@pytest.mark.parametrize("feed", ["text", "own"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_row_and_step_equals_an_engine_that_drafts_token_by_token(variant: str, feed: str) -> None:
    spec = make_spec(**VARIANTS[variant])
    embedding, tokens, aux = sequence(spec.channels)
    weights = make_weights(spec, embedding)
    channels = [[part.double() for part in row.chunk(spec.channels)] for row in aux]
    expected = draft_logits(weights, tokens.tolist(), channels, STEPS, feed)
    found = all_logits(weights, tokens, aux, feed)
    assert len(expected) == sum(len(step) for step in found) == sum(T - k for k in range(1, STEPS + 1))
    for (row, step), logits in expected.items():
        torch.testing.assert_close(found[step - 1][row].double(), logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("variant", ["plain", "no-gqa", "llama3-rope"])
def test_step_one_equals_the_modules_of_transformers(variant: str) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding

    spec = make_spec(**VARIANTS[variant])
    embedding, tokens, aux = sequence(spec.channels)
    weights = make_weights(spec, embedding)
    config = LlamaConfig(
        hidden_size=HIDDEN,
        num_attention_heads=spec.heads,
        num_key_value_heads=spec.kv_heads,
        head_dim=spec.head_dim,
        intermediate_size=spec.intermediate_size,
        rms_norm_eps=spec.norm_eps,
        max_position_embeddings=spec.rope.max_positions,
        rope_parameters={"rope_theta": spec.rope.theta, "rope_type": "default", **(spec.rope.scaling or {})},
        attn_implementation="eager",
    )
    wide = {f"{p}_proj": (getattr(spec, f"{'' if p == 'q' else 'kv_'}heads") * spec.head_dim) for p in "qkv"}
    attention, mlp = LlamaAttention(config, 0), LlamaMLP(config)
    for name, rows in wide.items():
        setattr(attention, name, torch.nn.Linear(2 * HIDDEN, rows, bias=False))
    parts = {"self_attn": attention, "mlp": mlp}
    norms = {name: LlamaRMSNorm(HIDDEN, spec.norm_eps) for name in weights.layer if "." not in name}
    norms["norm"] = LlamaRMSNorm(HIDDEN, spec.norm_eps)
    for name, value in weights.layer.items():
        owner = parts[name.split(".")[0]].get_submodule(name.split(".")[1]) if "." in name else norms[name]
        owner.weight.data = value
    norms["norm"].weight.data = weights.norm
    feature = torch.nn.functional.linear(aux[:-1], weights.fc)[None]
    embedded = torch.nn.functional.embedding(tokens[1:], embedding)[None]
    joined = torch.cat((norms["input_layernorm"](embedded), norms["hidden_norm"](feature)), dim=-1)
    rope = LlamaRotaryEmbedding(config)(joined, torch.arange(T - 1)[None])
    mask = torch.full((T - 1, T - 1), -torch.inf).triu(1)[None, None]
    middle = feature + attention(joined, rope, mask)[0]
    out = middle + mlp(norms["post_attention_layernorm"](middle))
    expected = torch.nn.functional.linear(norms["norm"](out), weights.head)[0]
    found = head_logits(weights, first_step(weights, tokens[1:], aux[:-1]).normed)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_the_size_of_a_chunk_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    embedding, tokens, aux = sequence(3)
    weights = make_weights(make_spec(), embedding)
    whole = all_logits(weights, tokens, aux, "text")
    monkeypatch.setattr(model, "_SCORES", 4 * T * 3)  # three rows at a time
    monkeypatch.setattr(model, "_LOGITS", 100)
    for left, right in zip(whole, all_logits(weights, tokens, aux, "text"), strict=True):
        torch.testing.assert_close(left, right, atol=1e-5, rtol=1e-5)


def test_a_step_only_depends_on_earlier_rows() -> None:
    embedding, tokens, aux = sequence(3)
    weights = make_weights(make_spec(), embedding)
    changed = aux.clone()
    changed[8:] += 1.0
    for left, right in zip(
        all_logits(weights, tokens, aux, "text"), all_logits(weights, tokens, changed, "text"), strict=True
    ):
        torch.testing.assert_close(left[:8], right[:8])
        assert not torch.allclose(left[8:], right[8:])


def test_every_weight_gets_a_gradient() -> None:
    embedding, tokens, aux = sequence(3)
    weights = make_weights(make_spec(), embedding)
    leaves = {name: value.clone().requires_grad_() for name, value in weights.layer.items()}
    fc, head, norm = (x.clone().requires_grad_() for x in (weights.fc, weights.head, weights.norm))
    live = replace(weights, layer=leaves, fc=fc, head=head, norm=norm)
    torch.stack([x.logsumexp(-1).mean() for x in all_logits(live, tokens, aux, "text")]).sum().backward()
    assert all(x.grad is not None and bool(x.grad.abs().sum() > 0) for x in (*leaves.values(), fc, head, norm))


def test_a_row_of_nan_spoils_itself_and_later_rows_only() -> None:
    embedding, tokens, aux = sequence(3)
    weights = make_weights(make_spec(), embedding)
    clean = draft_choices(weights, tokens, aux, STEPS, "text")
    broken = aux.clone()
    broken[6, 5] = torch.nan
    for step, (left, right) in enumerate(
        zip(clean, draft_choices(weights, tokens, broken, STEPS, "text"), strict=True), 1
    ):
        assert torch.equal(left[:6], right[:6])
        assert right[6:].tolist() == [-1] * (T - step - 6)


def test_bf16_stays_near_fp32() -> None:
    embedding, tokens, aux = sequence(3)
    weights = make_weights(make_spec(), embedding)
    half = replace(
        weights,
        layer={name: x.bfloat16() for name, x in weights.layer.items()},
        fc=weights.fc.bfloat16(),
        norm=weights.norm.bfloat16(),
        head=weights.head.bfloat16(),
    )
    for left, right in zip(
        all_logits(weights, tokens, aux, "text"), all_logits(half, tokens, aux, "text"), strict=True
    ):
        assert right.dtype == torch.bfloat16
        assert float((left - right.float()).norm() / left.norm()) < 0.05
