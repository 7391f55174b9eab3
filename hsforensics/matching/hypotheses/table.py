"""The table of hypotheses, in order of cost; each may be combined with a lag and a constant scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from hsforensics.matching.hypotheses.added_ranks import ranks_added
from hsforensics.matching.hypotheses.case import Candidate, Case, Explanation
from hsforensics.matching.hypotheses.families import branches, normed_states, plain_states
from hsforensics.matching.hypotheses.origin import rows_elsewhere
from hsforensics.matching.hypotheses.rotation import rotated
from hsforensics.matching.hypotheses.search import again, search
from hsforensics.matching.hypotheses.stream import partial_sum
from hsforensics.matching.hypotheses.unknown_gain import normed_with_unknown_gain

LAGS = (-3, -2, -1, 0, 1, 2, 3)


def _everything(case: Case) -> Iterator[Candidate]:
    return chain(plain_states(case), normed_states(case), branches(case))


@dataclass(frozen=True)
class Hypothesis:
    """One row of the table.

    Attributes:
        words: What is tried.
        attempt: Tries it.
        far_only: Only worth trying on a channel that is far from every state: near ones cannot be this.
    """

    words: str
    attempt: Callable[[Case], Explanation | None]
    far_only: bool = False


HYPOTHESES: tuple[Hypothesis, ...] = (
    Hypothesis("ranks added with their middle state", ranks_added),
    Hypothesis("a scale, a norm, a missing residual", lambda case: search(case, _everything(case), (0,))),
    Hypothesis("the same, some rows early or late", lambda case: search(case, _everything(case), LAGS), far_only=True),
    Hypothesis("rows of other tokens or requests", rows_elsewhere, far_only=True),
    Hypothesis("an orthogonal rotation", rotated, far_only=True),
    Hypothesis("a norm of unknown gain", normed_with_unknown_gain),
    Hypothesis("a partial sum", partial_sum),
)
"""What is tried, in order; the first good answer is taken."""

NEAR = 0.3
"""A channel nearer than this to some state (relative) is near."""

GOOD_FIT = 0.1
"""An explanation within this distance ends the search; a worse one yields to a later one that halves the distance."""


def explain(case: Case) -> Explanation | None:
    """The first hypothesis that explains the channel well, else the best of those that do, else ``None``."""
    if len(case.values) < 2:
        return None
    best: Explanation | None = None
    near = case.plain < NEAR
    for item in HYPOTHESES:
        found = None if near and item.far_only else item.attempt(case)
        if found is not None and (best is None or found.distance < 0.5 * best.distance):
            best = found
        if best is not None and best.distance <= GOOD_FIT:
            break
    return best


def guess(case: Case, known: Sequence[Explanation]) -> Explanation | None:
    """The first of the explanations found for other rows of a channel that explains these as well; no search."""
    found = (again(case, _everything(case), item) for item in known)
    return next((item for item in found if item is not None), None)
