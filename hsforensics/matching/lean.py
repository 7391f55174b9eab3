"""Does a channel that is nearest to one state lean towards another, instead of lying around it as noise would?

Noise has next to nothing in common with the direction to a neighbouring state, one of H. A part of a layer's output
that is missing or counted twice has: an average of two states, or a rank's share of a sum, can lie within half the gap
of a state and still be no state at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsforensics.states import State, state_order

if TYPE_CHECKING:
    from torch import Tensor

LEAN = 0.1
"""A row leans when it is at least this share of the way to another state, and not nearer than this to it, and"""

EXPLAINED = 0.3
"""this share of its squared distance lies in that direction; for noise it is about 1 / H."""

LEAN_SHARE = 0.2
"""A channel leans when at least this share of its rows do."""

_TINY = 1e-30


@dataclass(frozen=True)
class Lean:
    """How far a channel is on its way from one state to another.

    Attributes:
        towards: The other state.
        share: Share of rows that lean to it.
        amount: Median over these of ``<x - s, o - s> / |o - s|^2``: 0 at the state, 1 at the other.
        explained: Median over these of the squared cosine of ``x - s`` with ``o - s``.
    """

    towards: State
    share: float
    amount: float
    explained: float


def lean_of(values: Tensor, state: Tensor, towards: State, other: Tensor) -> Lean:
    """How a channel lies between a state and another one: three times [N, H], rows that are not finite are left out."""
    x, s, o = values.float(), state.float(), other.float()
    error, way = x - s, o - s  # [N, H]
    length, misfit = way.square().sum(dim=1), error.square().sum(dim=1)  # [N]
    along = (error * way).sum(dim=1)
    usable = length.isfinite() & misfit.isfinite()
    amount = along / length.clamp_min(_TINY)
    explained = along.square() / (length * misfit).clamp_min(_TINY)
    leaning = usable & (amount >= LEAN) & (amount <= 1 - LEAN) & (explained >= EXPLAINED)
    if not bool(leaning.any()):
        return Lean(towards, 0.0, 0.0, 0.0)
    share = float(leaning.sum() / usable.sum())
    return Lean(towards, share, float(amount[leaning].median()), float(explained[leaning].median()))


def strongest_lean(values: Tensor, state: State, bank: Mapping[State, Tensor]) -> Lean | None:
    """The neighbour that a channel leans to beyond what noise does, or ``None``.

    Args:
        values: [N, H].
        state: The state that it is nearest to.
        bank: That state and others, [N, H] each.
    """
    leans = [lean_of(values, bank[state], other, bank[other]) for other in bank if other != state]
    found = [lean for lean in leans if lean.share >= LEAN_SHARE]
    return max(found, key=lambda lean: lean.share * lean.explained, default=None)


def neighbours(state: State, states: Sequence[State]) -> tuple[State, ...]:
    """The states just before and after one in the stream, middle states included, and the numbered ones around it."""
    stream = sorted((known for known in states if known != "postnorm"), key=state_order)
    if state not in stream:
        return ()
    place = stream.index(state)
    before = [next((s for s in reversed(stream[:place]) if kind(s)), None) for kind in (_any, _numbered)]
    after = [next((s for s in stream[place + 1 :] if kind(s)), None) for kind in (_any, _numbered)]
    return tuple(dict.fromkeys(near for near in (*before, *after) if near is not None))


def _any(_state: State) -> bool:
    return True


def _numbered(state: State) -> bool:
    return isinstance(state, int)
