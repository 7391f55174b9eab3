"""A norm whose gain nobody has told us: fitted column by column on half of the rows, tested on the other half."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hsforensics.matching.hypotheses.case import Case, Explanation, accepted, unit_rows
from hsforensics.matching.hypotheses.families import branch_ends
from hsforensics.states import State, show_state

if TYPE_CHECKING:
    from torch import Tensor

MIN_ROWS = 32


def held_out_fit(source: Tensor, goal: Tensor) -> float:
    """Distance of ``source * g`` to ``goal`` on odd rows, with ``g`` [H] fitted on even rows; both [N, H]."""
    weight = goal.norm(dim=1, keepdim=True).clamp_min(1e-20).reciprocal()  # [N, 1]
    x, y = source * weight, goal * weight
    even, odd = slice(0, None, 2), slice(1, None, 2)
    gain = (x[even] * y[even]).sum(dim=0) / x[even].square().sum(dim=0).clamp_min(1e-20)  # [H]
    return float((x[odd] * gain - y[odd]).norm(dim=1).median())


def normed_with_unknown_gain(case: Case) -> Explanation | None:
    """A layer's input after that layer's own norm, or a branch of an engine with post-norms before its norm."""
    if len(case.values) < MIN_ROWS:
        return None
    found = list(_fits(case))
    if not found:
        return None
    distance, kinds, state, words = min(found, key=lambda item: item[0])
    rival = min((item[0] for item in found if item[1:3] != (kinds, state)), default=1.0)
    if not accepted(distance, rival, case.plain):
        return None
    return Explanation(kinds, state, words, distance, case.plain)


def _fits(case: Case) -> Iterator[tuple[float, tuple[str, ...], State, str]]:
    unit = unit_rows(case.values)
    for state in case.stream:
        distance = held_out_fit(unit_rows(case.bank[state]), case.values)
        yield distance, ("norm-applied",), state, f"{show_state(state)} after a norm, such as that of its layer's input"
    for before, after, words in branch_ends(case):
        added = case.bank[after].float() - case.bank[before].float()
        yield held_out_fit(unit, added), ("residual-missing",), after, f"{words}, before its own norm"
