"""Ranks of a tensor-parallel engine added up without taking the middle state away that each of them carries.

Rank r holds ``mid + part_r``, and all parts together are what leads from mid to the state. The plain sum of R ranks is
therefore ``R * mid + (state - mid)``, which is ``state + (R - 1) * mid``: the branch once, the stream R times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsforensics.matching.distance import relative_distance
from hsforensics.matching.hypotheses.case import Case, Explanation, accepted
from hsforensics.matching.hypotheses.stream import decompose
from hsforensics.states import State, show_state

if TYPE_CHECKING:
    from torch import Tensor

MOST_RANKS = 8

NEAR_WHOLE = 0.05
"""A coefficient within this of a whole number is that number: least squares over thousands of values is exact."""

FLOOR_FACTOR, FLOOR_SLACK = 1.25, 2e-3
"""The noise floor is what all parts of the stream together leave unexplained. A sum must leave no more than this factor
of it, and a little for the rounding of whole coefficients: else something else is in it."""


@dataclass(frozen=True)
class _Fit:
    """Least squares of the channel on a middle state and the branch after it; ``rest``: median share left over."""

    middle: State
    state: int
    stream: float
    branch: float
    rest: float

    @property
    def ranks(self) -> int:
        return round(self.stream)

    @property
    def whole(self) -> bool:
        """Whether this is what a sum of ranks would be: the branch once, the middle state R times."""
        near = abs(self.stream - self.ranks) <= NEAR_WHOLE and abs(self.branch - 1.0) <= NEAR_WHOLE
        return near and 2 <= self.ranks <= MOST_RANKS


def ranks_added(case: Case) -> Explanation | None:
    """The sum over R ranks of one state, if nothing else fits nearly as well and nothing but noise is left over."""
    fits = list(_fits(case))
    best = min((fit for fit in fits if fit.whole), key=lambda fit: fit.rest, default=None)
    if best is None:
        return None
    middle = case.bank[best.middle].float()
    total = case.bank[best.state].float() + (best.ranks - 1) * middle  # [N, H]
    distance = float(relative_distance(case.values, total).median())
    without = float(relative_distance(best.ranks * middle, total).median())  # the same without the branch
    rival = min([without, *(fit.rest for fit in fits if fit is not best)])
    if not accepted(distance, rival, case.plain) or distance > _floor(case):
        return None
    times = "" if best.ranks == 2 else f"{best.ranks - 1} times "
    words = (
        f"{show_state(best.state)} plus {times}{best.middle}: {best.ranks} ranks were added without taking the "
        f"middle state away that each of them carries"
    )
    remedy = f"subtract {times}{best.middle} from the sum of the ranks, or capture after the engine's all-reduce"
    return Explanation(("partial-sum",), best.state, words, distance, case.plain, remedy=remedy)


def _floor(case: Case) -> float:
    return FLOOR_FACTOR * decompose(case).residual + FLOOR_SLACK


def _fits(case: Case) -> Iterator[_Fit]:
    """One fit for each layer whose middle state the bank holds; every row weighs the same."""
    weight = case.values.norm(dim=1, keepdim=True).clamp_min(1e-20).reciprocal()  # [N, 1]
    goal = case.values * weight
    for state in case.stream:
        middle = f"mid:{state - 1}"
        if middle in case.bank:
            stream = case.bank[middle].float() * weight
            branch = case.bank[state].float() * weight - stream
            held = _two(stream, branch, goal)
            if held is not None:
                rest = float((goal - held[0] * stream - held[1] * branch).norm(dim=1).median())
                yield _Fit(middle, state, *held, rest)


def _two(one: Tensor, other: Tensor, goal: Tensor) -> tuple[float, float] | None:
    """Least-squares coefficients of ``goal`` on two tensors of its shape; ``None`` where the two are parallel."""
    ones, others, both = (float((a * b).sum()) for a, b in ((one, one), (other, other), (one, other)))
    left, right = float((one * goal).sum()), float((other * goal).sum())
    size = ones * others - both * both
    if size <= 1e-6 * ones * others:
        return None
    return (left * others - right * both) / size, (right * ones - left * both) / size
