"""Dump channels against served channels directly: their order, and whether they agree, without any bank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hsforensics.matching.distance import distance_tables

if TYPE_CHECKING:
    from torch import Tensor

NEAR = 0.35
"""Counterparts agree within this median distance, and"""

EQUAL = 0.02
"""Counterparts are equal within this distance: neighbouring states are not."""

STANDS_OUT = 0.5
"""within this share of the distance to any other channel."""


@dataclass(frozen=True)
class Counterparts:
    """The best assignment of served channels to dump channels.

    Attributes:
        order: For each dump channel the served channel assigned to it.
        distances: Median relative distance of each such pair.
        sure: Whether every pair is near and stands out.
        equal: For each sample, the share of rows in which every pair lies within ``EQUAL``, and
        near: within ``NEAR``.
    """

    order: tuple[int, ...]
    distances: tuple[float, ...]
    sure: bool
    equal: tuple[float, ...] = ()
    near: tuple[float, ...] = ()

    @property
    def straight(self) -> bool:
        """Whether slot i is served what slot i was trained on."""
        return self.order == tuple(range(len(self.order)))


def counterparts(samples: Iterable[tuple[Sequence[Tensor], Sequence[Tensor]]]) -> Counterparts:
    """Assign served channels to dump channels with the least total distance.

    Args:
        samples: (dump channels, served channels) of each sample, n of [T, H] each; at least one sample.
    """
    import torch

    found: list[list[Tensor]] = []
    for dump, served in samples:
        found.append(distance_tables(dump, served))  # n x [T, n]
    tables = [torch.cat([sample[i] for sample in found]) for i in range(len(found[0]))]
    cost = torch.stack([table.nanmedian(dim=0).values for table in tables])  # [n, n]
    best = assign(cost)
    worst = [_worst(sample, best.order) for sample in found]  # [T] each
    equal, near = (tuple(float((rows <= limit).float().mean()) for rows in worst) for limit in (EQUAL, NEAR))
    return replace(best, equal=equal, near=near)


def _worst(tables: Sequence[Tensor], order: Sequence[int]) -> Tensor:
    """The largest distance of a pair in each row: n x [T, n] -> [T]; infinite where it is no number."""
    import torch

    pairs = torch.stack([table[:, column] for table, column in zip(tables, order, strict=True)])  # [n, T]
    return pairs.nan_to_num(nan=float("inf")).amax(dim=0)


def assign(cost: Tensor) -> Counterparts:
    """The assignment of columns to rows with the least total of ``cost`` [n, n]."""
    import torch
    from scipy.optimize import linear_sum_assignment

    finite = torch.nan_to_num(cost.double(), nan=1e6, posinf=1e6)
    _, order = linear_sum_assignment(finite.numpy())
    picked = [float(finite[row, column]) for row, column in enumerate(order)]
    others = finite.clone()
    others[range(len(order)), list(order)] = float("inf")
    rivals = others.min(dim=1).values.tolist()
    sure = all(d <= NEAR and d <= STANDS_OUT * rival for d, rival in zip(picked, rivals, strict=True))
    return Counterparts(tuple(int(column) for column in order), tuple(picked), sure)
