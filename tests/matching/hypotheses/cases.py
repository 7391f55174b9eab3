"""Cases with middle states, made from the synthetic world."""

from __future__ import annotations

import torch
from torch import Tensor

from hsforensics.matching.hypotheses.case import Case
from hsforensics.states import State
from tests.world import HIDDEN, LAYERS, World, make_world

ROWS = 64


def wide_world(seed: int = 0) -> World:
    return make_world(seed, lengths=(ROWS, ROWS, ROWS))


def bank_of(world: World) -> dict[State, Tensor]:
    """All sequences' states one after another, each [3 * ROWS, H], with middle states a random part of the way."""
    bank: dict[State, Tensor] = {
        state: torch.cat([sequence[state] for sequence in world.banks]) for state in world.states
    }
    generator = torch.Generator().manual_seed(5)
    for layer in range(LAYERS):
        low = bank[layer]
        step = torch.randn(low.shape, generator=generator) * low.norm(dim=1, keepdim=True) / HIDDEN**0.5
        bank[f"mid:{layer}"] = low + 0.15 * step
    return bank


def case_of(values: Tensor, bank: dict[State, Tensor], world: World) -> Case:
    numbers = torch.arange(len(world.tokens)).repeat_interleave(ROWS)
    return Case(values.float(), bank, torch.cat(world.tokens), numbers, numbers)


def shifted(values: Tensor, lag: int) -> Tensor:
    """Row t holds row t - lag, within each sequence (rows that fall outside come from the other end)."""
    return torch.cat([part.roll(lag, dims=0) for part in values.split(ROWS)])


def rotation(seed: int = 3) -> Tensor:
    square = torch.randn(HIDDEN, HIDDEN, generator=torch.Generator().manual_seed(seed))
    found: Tensor = torch.linalg.qr(square).Q
    return found
