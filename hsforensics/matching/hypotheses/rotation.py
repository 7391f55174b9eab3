"""An orthogonal rotation keeps norms and inner products, and changes every value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsforensics.matching.distance import scaled_distance
from hsforensics.matching.hypotheses.case import FARTHEST_FIT, RIVAL_SHARE, Case, Explanation
from hsforensics.matching.identify import FARTHEST
from hsforensics.states import State, show_state

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 192
NORM_SPREAD = 0.1
"""Row norms agree when their ratio to the state's varies by less than this (median absolute deviation)."""


def gram(values: Tensor) -> Tensor:
    """Cosines between the rows: [T, H] -> [T, T] fp32, with a zero diagonal."""
    unit = values.float() / values.float().norm(dim=1, keepdim=True).clamp_min(1e-20)
    cosines: Tensor = unit @ unit.T
    cosines.fill_diagonal_(0.0)
    return cosines


def rotated(case: Case) -> Explanation | None:
    """A state times an orthogonal matrix, possibly scaled and lagged.

    Noise keeps norms and inner products, too, but leaves the values near the state; a rotation does not.
    """
    found: list[tuple[float, int, State]] = []
    for lag in (0, -1, 1, -2, 2, -3, 3):
        ours, theirs = (rows[:ROWS] for rows in case.lagged(lag))
        if len(ours) < 16:
            continue
        mine = gram(case.values[ours])
        for state, values in case.bank.items():
            error = _gram_error(mine, gram(values[theirs]))
            if _norm_spread(case.values[ours], values[theirs]) <= NORM_SPREAD:
                found.append((error, lag, state))
    if not found:
        return None
    error, lag, state = min(found, key=lambda item: item[0])
    rival = min((item[0] for item in found if item[1:] != (lag, state)), default=1.0)
    ours, theirs = case.lagged(lag)
    apart, _ = scaled_distance(case.values[ours], case.bank[state][theirs])
    if error > min(FARTHEST_FIT, RIVAL_SHARE * rival) or apart < FARTHEST:
        return None
    kinds = ("rotated", "rows-lagged") if lag else ("rotated",)
    late = f", {abs(lag)} rows {'late' if lag > 0 else 'early'}" if lag else ""
    words = f"{show_state(state)} times an orthogonal matrix (Gram matrices agree within {error:.2g}){late}"
    return Explanation(kinds, state, words, error, 1.0, lag=lag)


def _gram_error(ours: Tensor, theirs: Tensor) -> float:
    """Relative to how much the cosines themselves vary, so that a common direction of all rows proves nothing."""
    spread = (theirs - theirs.mean()).norm().clamp_min(1e-20)
    return float((ours - theirs).norm() / spread)


def _norm_spread(ours: Tensor, theirs: Tensor) -> float:
    ratio = (ours.float().norm(dim=1) / theirs.float().norm(dim=1).clamp_min(1e-20)).log()
    return float((ratio - ratio.median()).abs().median())
