"""What every hypothesis is given, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hsforensics.matching.distance import scaled_distance
from hsforensics.states import POSTNORM, State

if TYPE_CHECKING:
    from torch import Tensor

FARTHEST_FIT = 0.35
"""A transform explains a channel only within this relative distance (half of what makes a channel ``none``), and"""

RIVAL_SHARE = 0.5
"""within this share of the distance to the second-best explanation and to the nearest plain state."""


MIXED = "set-mixed"
"""Kind of an explanation that says only that samples differ; see ``hsforensics.flows.by_sample``."""


@dataclass(frozen=True)
class Case:
    """A channel that no state fits, with the bank for the same rows; rows of a few sequences one after another.

    Attributes:
        values: [N, H] fp32, finite.
        bank: State -> [N, H], any float dtype.
        tokens: [N] int64.
        sequences: [N] int64, number of the sequence a row belongs to.
        runs: [N] int64, number of the contiguous run a row belongs to; a lag never crosses runs.
    """

    values: Tensor
    bank: Mapping[State, Tensor]
    tokens: Tensor
    sequences: Tensor
    runs: Tensor

    @cached_property
    def stream(self) -> tuple[int, ...]:
        """The numbered states in the bank, by depth."""
        return tuple(sorted(state for state in self.bank if isinstance(state, int)))

    @cached_property
    def plain(self) -> float:
        """Median distance to the nearest plain state, unscaled: what an explanation has to beat."""
        from hsforensics.matching.distance import relative_distance

        return min(float(relative_distance(self.values, state).nanmedian()) for state in self.bank.values())

    @cached_property
    def final_gain(self) -> Tensor | None:
        """[H] fp32: the final norm's gain as the bank itself shows it (postnorm over normalised state L)."""
        if POSTNORM not in self.bank or not self.stream:
            return None
        return (self.bank[POSTNORM].float() / unit_rows(self.bank[self.stream[-1]])).nanmedian(dim=0).values

    def lagged(self, lag: int) -> tuple[Tensor, Tensor]:
        """Row numbers t and t - lag, each [M], wherever both lie in one run."""
        import torch

        rows = torch.arange(len(self.values))
        other = rows - lag
        inside = (other >= 0) & (other < len(rows))
        rows, other = rows[inside], other[inside]
        same = self.runs[rows] == self.runs[other]
        return rows[same], other[same]


@dataclass(frozen=True)
class Explanation:
    """What a channel is after all.

    Attributes:
        kinds: Finding codes, one for each transform; several when transforms are combined.
        state: The state it was made from, where it was made from one.
        words: In words, such as ``the MLP branch of layer 4 without the residual``.
        distance: Median distance to the transformed state; ``plain`` to the nearest plain one.
        share: How much of the misfit is explained: ``1 - distance / plain``.
        scale: Constant factor.
        lag: Row t holds token ``t - lag``.
        remedy: What to do, where the kinds' own remedies do not fit.
        sequences: The sequences that it is about, where it is not about all.
    """

    kinds: tuple[str, ...]
    state: State | None
    words: str
    distance: float
    plain: float
    scale: float = 1.0
    lag: int = 0
    remedy: str | None = None
    sequences: tuple[int, ...] = ()

    @property
    def mixed(self) -> bool:
        """Whether it is one thing in some samples and another in others."""
        return self.kinds == (MIXED,)

    @property
    def share(self) -> float:
        """1 when nothing is left unexplained, 0 when the transform explains nothing."""
        return max(0.0, 1.0 - self.distance / self.plain) if self.plain else 0.0


@dataclass(frozen=True)
class Candidate:
    """One tensor that a channel may turn out to be; ``kind`` is its finding code, ``None`` for a plain state."""

    kind: str | None
    state: State
    words: str
    build: Callable[[], Tensor]  # -> [N, H] fp32


def unit_rows(values: Tensor) -> Tensor:
    """Rows divided by their RMS: [T, H] -> [T, H] fp32."""
    wide = values.float()
    unit: Tensor = wide / wide.square().mean(dim=1, keepdim=True).sqrt().clamp_min(1e-20)
    return unit


def accepted(distance: float, rival: float, plain: float) -> bool:
    """Whether an explanation is near enough, and clearly nearer than the next one and than any plain state."""
    return distance <= min(FARTHEST_FIT, RIVAL_SHARE * rival, RIVAL_SHARE * plain)


__all__ = ["Candidate", "Case", "Explanation", "accepted", "scaled_distance", "unit_rows"]
