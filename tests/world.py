"""A synthetic world without any model: states that behave like a residual stream, as bank, dump and live capture.

State 0 is the embedding of the tokens; every layer adds a random step, so neighbours differ by some 30 %, as in real
models; the last norm is a true RMS norm. Files are real files in the project's own formats.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from hsforensics.capture.manifest import ManifestHeader, RequestTensors
from hsforensics.capture.store import write_capture
from hsforensics.states import POSTNORM, State

LAYERS, HIDDEN, VOCAB = 12, 48, 97


@dataclass(frozen=True)
class World:
    """A target's weights that matter, and the states of a few sequences."""

    embedding: Tensor  # [V, H]
    gain: Tensor  # [H]
    tokens: tuple[Tensor, ...]  # [T] each
    banks: tuple[dict[State, Tensor], ...]  # state -> [T, H]
    architecture: str = "LlamaForCausalLM"
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def states(self) -> tuple[State, ...]:
        return (*range(LAYERS + 1), POSTNORM)


def make_world(seed: int = 0, lengths: Sequence[int] = (40, 33, 51), dtype: torch.dtype = torch.float32) -> World:
    """Random states of random tokens: a residual stream that grows with depth."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    embedding, gain = normal(VOCAB, HIDDEN), 1.0 + 0.3 * normal(HIDDEN)
    tokens = tuple(torch.randint(0, VOCAB, (length,), generator=generator) for length in lengths)
    banks = []
    for ids in tokens:
        state = embedding[ids]
        bank: dict[State, Tensor] = {0: state}
        for layer in range(LAYERS):
            state = state + 0.3 * state.norm(dim=1, keepdim=True) * normal(len(ids), HIDDEN) / HIDDEN**0.5
            bank[layer + 1] = state
        bank[POSTNORM] = state / state.square().mean(dim=1, keepdim=True).sqrt() * gain
        banks.append({name: value.to(dtype) for name, value in bank.items()})
    return World(embedding.to(dtype), gain.to(dtype), tokens, tuple(banks))


def write_target(world: World, path: Path) -> Path:
    """The target's directory: config and the few weights that evidence reads."""
    path.mkdir(parents=True)
    (path / "config.json").write_text(config_text(world))
    weights = {"model.embed_tokens.weight": world.embedding, "model.norm.weight": world.gain}
    save_file(weights, path / "model.safetensors")
    return path


def config_text(world: World) -> str:
    """The target's ``config.json``."""
    config = {
        "architectures": [world.architecture],
        "num_hidden_layers": LAYERS,
        "hidden_size": HIDDEN,
        "vocab_size": VOCAB,
        "rms_norm_eps": 1e-6,
        **world.extra,
    }
    return json.dumps(config)


def write_dump(
    world: World, path: Path, states: Sequence[State], layer_ids: Sequence[int] | None = None, noise: float = 0.0
) -> Path:
    """Speculators 0.3 files that hold ``states``, labelled with ``layer_ids`` (output-of-layer ids)."""
    path.mkdir(parents=True)
    generator = torch.Generator().manual_seed(7)
    for index, (tokens, bank) in enumerate(zip(world.tokens, world.banks, strict=True)):
        values = [disturb(bank[state], noise, generator) for state in states]
        sample = {"input_ids": tokens, "hidden_states": values, "loss_mask": torch.ones_like(tokens)}
        torch.save(sample, path / f"data_{index}.pt")
    if layer_ids is not None:
        (path / "data_config.json").write_text(json.dumps({"hidden_states": {"layer_ids": list(layer_ids)}}))
    return path


def disturb(values: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    """Add noise of a relative size to every row, [T, H] -> [T, H]."""
    if not noise:
        return values.clone()
    step = torch.randn(values.shape, generator=generator)
    step *= values.float().norm(dim=1, keepdim=True) / step.norm(dim=1, keepdim=True)
    return (values.float() + noise * step).to(values.dtype)


def write_bank(
    world: World,
    path: Path,
    served: Sequence[State] = (),
    noise: float = 0.0,
    rows: int | None = None,
    drafter_config: str | None = None,
    states: Sequence[State] | None = None,
) -> Path:
    """A capture of the world: a reference bank, or, with ``served``, a live capture that fed those states."""
    header = ManifestHeader(
        kind="live" if served else "reference",
        engine="sglang" if served else "transformers",
        engine_version="0.5.12.post1" if served else "5.0",
        dtype=str(world.gain.dtype).removeprefix("torch."),
        device="cpu",
        target_path="target",
        target_wrapper=world.architecture,
        target_inner=world.architecture,
        target_config_sha256=hashlib.sha256(config_text(world).encode()).hexdigest(),
        layers=LAYERS,
        hidden_size=HIDDEN,
        states=tuple(states or world.states),
        served=len(served),
        drafter_config_sha256=drafter_config,
    )
    generator = torch.Generator().manual_seed(11)
    requests = [
        RequestTensors(
            token_ids=tokens[:rows],
            positions=torch.arange(len(tokens[:rows])),
            states={state: disturb(bank[state][:rows], noise, generator) for state in states or world.states},
            served=tuple(bank[state][:rows].clone() for state in served),
        )
        for tokens, bank in zip(world.tokens, world.banks, strict=True)
    ]
    write_capture(path, header, requests)
    return path
