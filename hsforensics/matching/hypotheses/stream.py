"""A channel as a sum of what each layer adds: which parts does it hold, and how much of each?

A true state k holds the embedding and every branch up to k once, and no later one. A rank of a tensor-parallel engine
whose sum was not reduced holds every earlier branch once and its own share of the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from hsforensics.matching.hypotheses.case import Case, Explanation
from hsforensics.states import State, show_state, state_order

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCE = 0.15
"""A coefficient within this of 0 or 1 counts as 0 or 1."""
ROWS = 160
WORST_FIT = 0.6


@dataclass(frozen=True)
class Parts:
    """Coefficients of the embedding and of every branch, in the order of ``states`` (the stream after each part).

    Attributes:
        states: [n] states; part j leads from ``states[j - 1]`` to ``states[j]``.
        coefficients: [n] fp64; least squares over all rows, each row weighing the same.
        residual: Median share of a row's norm that no part explains.
    """

    states: tuple[State, ...]
    coefficients: Tensor
    residual: float


def decompose(case: Case) -> Parts:
    """Least squares of the channel on the parts of the stream."""
    import torch

    states = tuple(sorted((s for s in case.bank if s != "postnorm"), key=state_order))
    rows = slice(0, ROWS)
    weight = case.values[rows].norm(dim=1, keepdim=True).clamp_min(1e-20).reciprocal()
    points = [case.bank[state][rows].float() * weight for state in states]
    parts = [points[0], *(high - low for low, high in pairwise(points))]
    basis = torch.stack([part.flatten() for part in parts])  # [n, N * H]
    goal = (case.values[rows] * weight).flatten()
    square = (basis @ basis.T).double()
    square += 1e-6 * square.diagonal().mean() * torch.eye(len(parts), dtype=torch.float64)
    coefficients = torch.linalg.solve(square, (basis @ goal).double())
    rest = (goal - coefficients.float() @ basis).view(-1, case.values.shape[1])
    return Parts(states, coefficients, float(rest.norm(dim=1).median()))


def partial_sum(case: Case) -> Explanation | None:
    """Every branch up to some point once, a fraction of the next, nothing of the later ones."""
    parts = decompose(case)
    if parts.residual > WORST_FIT:
        return None
    whole = (parts.coefficients - 1).abs() <= TOLERANCE
    none = parts.coefficients.abs() <= TOLERANCE
    last = int(whole.int().cumprod(dim=0).sum())  # parts held once
    if last == 0 or last >= len(parts.states) or not bool(none[last + 1 :].all()) or bool(none[last]):
        return None
    amount = float(parts.coefficients[last])
    if not TOLERANCE < amount < 1 - TOLERANCE:
        return None
    before, after = parts.states[last - 1], parts.states[last]
    words = f"{show_state(before)} and {amount:.0%} of what leads to {show_state(after)}"
    if isinstance(before, int) and isinstance(after, int):
        words += " (a middle state, or a rank's share of a sum)"
    return Explanation(("partial-sum",), after, words, parts.residual, max(parts.residual, case.plain))


def sum_of_ranks(ranks: list[Tensor], middle: Tensor) -> Tensor:
    """The state that R ranks hold together, each as ``middle + its part``: [T, H] each -> [T, H] fp32.

    Every rank carries the middle state, so the plain sum counts it R times.
    """
    total = ranks[0].float().clone()
    for rank in ranks[1:]:
        total += rank.float()
    total -= (len(ranks) - 1) * middle.float()
    return total
