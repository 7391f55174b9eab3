"""Scenes for the evidence engine: real or synthetic states, what storing does to them, and how they are judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from hsforensics.capture.manifest import ManifestHeader
from hsforensics.dumps.layout import DumpSet, RawSample
from hsforensics.flows.compare import compare_inputs
from hsforensics.flows.compare_inputs import Inputs
from hsforensics.flows.memory_bank import MemoryBank, MemoryRequest
from hsforensics.results import CompareResult
from hsforensics.states import POSTNORM, Channel, Sample, State


@dataclass(frozen=True)
class Scene:
    """States of a few sequences: for each the token ids [T], and state -> [T, H], middle states included.

    ``device`` is where the states were computed; they lie on the CPU, as those of a capture do.
    """

    name: str
    layers: int
    truth: tuple[int, ...]
    tokens: tuple[Tensor, ...]
    banks: tuple[dict[State, Tensor], ...]
    device: str = "cpu"

    @property
    def width(self) -> int:
        """H."""
        return int(self.banks[0][0].shape[1])


@dataclass
class Sides:
    """What a comparison is given, before and after faults: per sample the dump's channels, and what was served."""

    scene: Scene
    dump: list[list[Tensor]]
    served: list[list[Tensor]]
    tokens: list[Tensor]
    masks: list[Tensor | None] = field(default_factory=list)

    def serve(self, slot: int, make: Callable[[dict[State, Tensor]], Tensor]) -> None:
        """Replace a served slot in every sample."""
        for values, bank in zip(self.served, self.scene.banks, strict=True):
            values[slot] = make(bank)


def healthy(scene: Scene, noise: Callable[[Tensor], Tensor]) -> Sides:
    """Both sides as they should be; ``noise`` is what storing or computing did to the dump."""
    states: tuple[State, ...] = (*scene.truth, POSTNORM)
    return Sides(
        scene,
        [[noise(bank[state]) for state in states] for bank in scene.banks],
        [[bank[state].clone() for state in scene.truth] for bank in scene.banks],
        [tokens.clone() for tokens in scene.tokens],
        [None] * len(scene.tokens),
    )


def judge(sides: Sides, device: str = "cpu") -> CompareResult:
    """Compare the two sides, as ``hsforensics compare DUMPS LIVE --device DEVICE`` would."""
    return compare_inputs(inputs_of(sides), device=device)


def inputs_of(sides: Sides) -> Inputs:
    """The two sides as an opened dump and an opened live capture."""
    scene = sides.scene
    header = ManifestHeader(
        kind="live",
        engine="engine",
        engine_version="1",
        dtype="bfloat16",
        device=scene.device,
        target_path="target",
        target_wrapper="TargetForCausalLM",
        target_inner="TargetForCausalLM",
        target_config_sha256="0" * 64,
        layers=scene.layers,
        hidden_size=scene.width,
        states=tuple(scene.banks[0]),
        served=len(sides.served[0]),
    )
    requests = [
        MemoryRequest(tokens, bank, _channels("served.{}", values))
        for tokens, bank, values in zip(scene.tokens, scene.banks, sides.served, strict=True)
    ]
    samples = [
        Sample(f"data_{number}", Path(f"data_{number}"), tokens, _channels("hidden_states[{}]", values), mask)
        for number, (tokens, values, mask) in enumerate(zip(sides.tokens, sides.dump, sides.masks, strict=True))
    ]
    dumps = DumpSet(Path("dump"), "memory", (), None, None, _never)
    return Inputs(dumps, samples, MemoryBank(Path("live"), header, requests))


def _channels(label: str, values: Sequence[Tensor]) -> tuple[Channel, ...]:
    return tuple(Channel(number, label.format(number), None, rows) for number, rows in enumerate(values))


def _never(path: Path) -> RawSample:
    raise AssertionError(path)


# -- scenes -----------------------------------------------------------------------------------------------------


def synthetic(seed: int = 0, layers: int = 12, width: int = 96, lengths: Sequence[int] = (64, 56, 72)) -> Scene:
    """A random residual stream: every branch moves the stream by a fifth of its norm in a random direction."""
    generator = torch.Generator().manual_seed(seed)
    embedding = torch.randn(61, width, generator=generator)
    tokens, banks = [], []
    for length in lengths:
        ids = torch.randint(0, 61, (length,), generator=generator)
        state = embedding[ids]
        bank: dict[State, Tensor] = {0: state}
        for layer in range(layers):
            for name in (f"mid:{layer}", layer + 1):
                step = torch.randn(length, width, generator=generator) / width**0.5
                state = state + 0.22 * state.norm(dim=1, keepdim=True) * step
                bank[name] = state
        bank[POSTNORM] = unit(state)
        tokens.append(ids)
        banks.append({name: value.bfloat16() for name, value in bank.items()})
    truth = (layers // 4, layers // 2, layers - 3)
    return Scene("synthetic stream", layers, truth, tuple(tokens), tuple(banks))


def real(
    model: Path, texts: Sequence[str], rows: int = 96, *, name: str = "SmolLM2-135M", device: str = "cpu"
) -> Scene:
    """States of a real target, computed by transformers in bf16 on a device, middle states included."""
    from transformers import AutoTokenizer

    from hsforensics.capture.reference import reference_bank
    from hsforensics.capture.transformers_model import load_reference
    from hsforensics.models.target import load_target

    reference = load_reference(load_target(model), "bf16", device)
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokens = tuple(torch.tensor(tokenizer(text)["input_ids"][:rows]) for text in texts)
    banks = tuple(reference_bank(reference, ids, middle=True) for ids in tokens)
    layers = len(reference.layers)
    return Scene(name, layers, (2, layers // 2, layers - 3), tokens, banks, str(reference.device))


def save_scene(scene: Scene, file: Path) -> None:
    """Write a scene for other processes to read."""
    torch.save(dict(vars(scene)), file)


def load_scene(file: Path) -> Scene:
    """What ``save_scene`` wrote; its states in the same order."""
    return Scene(**torch.load(file, weights_only=True))


def unit(values: Tensor) -> Tensor:
    """Every row divided by its root mean square, in fp32: [T, H]."""
    wide = values.float()
    found: Tensor = wide / wide.square().mean(dim=1, keepdim=True).sqrt()
    return found


# -- noise ------------------------------------------------------------------------------------------------------


def fp8(values: Tensor) -> Tensor:
    """A round trip through float8_e4m3fn with one scale for each row."""
    wide = values.float()
    scale = wide.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 448.0
    return ((wide / scale).to(torch.float8_e4m3fn).float() * scale).bfloat16()


def int4(values: Tensor, group: int = 32) -> Tensor:
    """A round trip through symmetric int4 with one scale for each group of values."""
    wide = values.float()
    rows, width = wide.shape
    parts = wide.view(rows, width // (group if width % group == 0 else 16), -1)
    scale = parts.abs().amax(dim=2, keepdim=True).clamp_min(1e-12) / 7.0
    return ((parts / scale).round().clamp(-8, 7) * scale).view(rows, width).bfloat16()


NOISES: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda values: values.clone(),
    "bf16": lambda values: values.bfloat16(),
    "fp16": lambda values: values.half(),
    "fp8": fp8,
    "int4": int4,
}
"""Name -> what it does to a dump's channel [T, H]."""
