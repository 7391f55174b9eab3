"""Where does each row come from? Finds rows of other tokens and of other requests, however they are mixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsforensics.matching.distance import relative_distance
from hsforensics.matching.hypotheses.case import FARTHEST_FIT, RIVAL_SHARE, Case, Explanation
from hsforensics.states import State, show_state

if TYPE_CHECKING:
    from torch import Tensor

FOREIGN_SHARE = 0.2
"""At least this share of the rows must come from elsewhere before that explains a channel."""


@dataclass(frozen=True)
class Origins:
    """For some state: which rows are found at another row, as shares of all rows, how well they fit there, and the
    sequences that hold them, most such rows first."""

    state: State
    own: float
    elsewhere: float
    other_sequence: float
    distance: float
    sequences: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """In words."""
        where = f"{self.other_sequence:.0%} from other requests" if self.other_sequence else "none from other requests"
        return f"{show_state(self.state)}, but {self.elsewhere:.0%} of its rows belong to other tokens ({where})"


def origins(case: Case, state: State) -> Origins:
    """Nearest row of a state for every row of the channel, within all sequences of the case."""
    values, bank = case.values, case.bank[state].float()
    unit = values / values.norm(dim=1, keepdim=True).clamp_min(1e-20)
    pool = bank / bank.norm(dim=1, keepdim=True).clamp_min(1e-20)
    nearest = (unit @ pool.T).argmax(dim=1)  # [N]
    here = relative_distance(values, bank)
    there = relative_distance(values, bank[nearest])
    limit = there.new_tensor(FARTHEST_FIT)
    moved = (case.tokens[nearest] != case.tokens) & (there <= limit) & (there <= RIVAL_SHARE * here)
    other = moved & (case.sequences[nearest] != case.sequences)
    own = (here <= limit) & ~moved
    distance = float(there[moved].median()) if bool(moved.any()) else float("inf")
    counts = case.sequences[moved].bincount()
    held_by = tuple(counts.argsort(descending=True, stable=True)[: int((counts > 0).sum())].tolist())
    return Origins(state, _share(own), _share(moved), _share(other), distance, held_by)


def _share(mask: Tensor) -> float:
    return float(mask.float().mean())


def rows_elsewhere(case: Case) -> Explanation | None:
    """The state for which most rows are found at other tokens, if those are enough to explain the channel."""
    found = [origins(case, state) for state in case.bank]
    best = max(found, key=lambda item: (round(item.own + item.elsewhere, 2), -item.distance))
    if best.elsewhere < FOREIGN_SHARE or best.own + best.elsewhere < 0.5:
        return None
    return Explanation(("rows-foreign",), best.state, best.words, best.distance, case.plain, sequences=best.sequences)
