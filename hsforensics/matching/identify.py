"""Which state is a channel? The decision, with everything that makes it believable or not.

The yardstick is the bank itself. ``gap`` is how far the best state lies from its own nearest neighbour, in the same
metric. A channel within half a gap is nearer to its best state than to any other (triangle inequality), so that is a
match; a channel a whole gap away is no nearer than a wrong state would be, so that is none; between them, several
states are possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hsforensics.matching.bootstrap import ratio_interval
from hsforensics.matching.distance import distance_tables
from hsforensics.matching.lean import Lean
from hsforensics.results import Interval
from hsforensics.states import Identity, State, show_state

if TYPE_CHECKING:
    from torch import Tensor

MATCH_SHARE_OF_GAP = 0.5
"""Largest distance of a match, as a share of the gap: the triangle inequality's bound."""

FARTHEST = 0.7
"""A channel at least this far (relative) from every state is none: its cosine with them is under about 0.75."""

UNANIMOUS, CLEAR_MARGIN = 0.9, 0.15
"""Beyond the gap, votes this unanimous and a margin this clear still make a channel ambiguous rather than none: that is
how strong noise on one state looks, while a stranger's rows disagree about which state is nearest."""

MAJORITY = 0.5
"""A match needs more than this share of the votes, also at the low end of the interval."""


@dataclass(frozen=True)
class Match:
    """What a channel was found to be; fields as in ``hsforensics.results.ChannelRecord``.

    Attributes:
        gap: Median over rows of the distance from the best state to its nearest other state; ``None`` without a bank.
        floor: Median distance of the best state between repeated captures: the noise floor; ``None`` without them.
        excluded: States that the evidence rules out even when it names none.
        capped: Whether the bank lacks states, so that being nearest proves nothing.
        note: The evidence in words.
    """

    identity: Identity
    state: State | None = None
    distance: float | None = None
    runner_up_state: State | None = None
    runner_up: float | None = None
    votes: float | None = None
    votes_interval: Interval | None = None
    tokens: int = 0
    gap: float | None = None
    floor: float | None = None
    excluded: tuple[State, ...] = ()
    note: str = ""
    capped: bool = False

    @property
    def margin(self) -> float | None:
        """``1 - distance / runner_up``: 1 for an exact match, 0 when two states fit equally well."""
        if self.distance is None or not self.runner_up:
            return None
        return 1.0 - self.distance / self.runner_up

    @property
    def known(self) -> State | None:
        """The state if the identity is certain enough to rest a verdict on, else ``None``."""
        return self.state if self.identity in ("exact", "match") else None


def gap_of(state: Tensor, others: Iterable[Tensor]) -> float:
    """Median over rows of the distance from a state to its nearest other state: [T, H], S x [T, H] -> float."""
    (table,) = distance_tables([state], others)  # [T, S]
    return float(table.amin(dim=1).nanmedian())


def identify(
    tables: Sequence[Tensor], states: Sequence[State], gap: float, seed: int, floor: float | None = None
) -> Match:
    """Decide which state a channel is.

    Args:
        tables: One [T_i, S] table of relative distances for each sequence; rows that are not finite are left out.
        states: The S states of the columns, at least two.
        gap: Gap of the best state (see ``best_state`` and ``gap_of``).
        seed: Seed of the bootstrap.
        floor: Noise floor of the best state, measured from repeated captures, if there are any.
    """
    import torch

    finite = [table[table.isfinite().all(dim=1)] for table in tables]
    rows = torch.cat(finite)  # [N, S]
    if not len(rows):
        return Match("unreadable", note="no finite row to compare")
    medians = rows.median(dim=0).values  # [S]
    order = medians.argsort(stable=True).tolist()
    best, second = order[0], order[1]
    ballots = [int((table.argmin(dim=1) == best).sum()) for table in finite if len(table)]
    sizes = [len(table) for table in finite if len(table)]
    found = Match(
        identity="none",
        state=states[best],
        distance=float(medians[best]),
        runner_up_state=states[second],
        runner_up=float(medians[second]),
        votes=sum(ballots) / len(rows),
        votes_interval=ratio_interval(ballots, sizes, seed),
        tokens=len(rows),
        gap=gap,
        floor=floor,
    )
    exact = bool((rows[:, best] == 0).all())
    decided = _decide(found, exact=exact, twin=bool((rows[:, second] == 0).all()))
    if decided.identity != "ambiguous":
        return decided
    far = (state for state, median in zip(states, medians.tolist(), strict=True) if median >= FARTHEST)
    return replace(decided, excluded=tuple(far))


def capped(match: Match) -> Match:
    """What is left of a match when the bank lacks states: ``exact`` counts, everything else becomes ``ambiguous``.

    The gap says how far the next state is; with states missing, the next state may be one of these.
    """
    if match.identity in ("exact", "unreadable"):
        return match
    return replace(match, identity="ambiguous", note="nearest of the states that the bank holds", capped=True)


def leaning(match: Match, lean: Lean) -> Match:
    """What is left of a match whose distance leads to another state: ``ambiguous``, however near it is."""
    way = f"{lean.amount:.0%} of the way to {show_state(lean.towards)}"
    note = f"lies {way} in {lean.share:.0%} of its rows, which explains {lean.explained:.0%} of their squared distance"
    return replace(match, identity="ambiguous", note=note)


def off_bank(match: Match, share: float) -> Match:
    """What is left of a match of a served channel that differs from the bank of its own pass: ``ambiguous``.

    Args:
        match: Of the channel.
        share: Of its rows that are farther from the state than rounding explains.
    """
    if match.identity not in ("match", "exact"):
        return match
    note = f"differs by more than rounding in {share:.0%} of its rows, which a state of the same pass cannot"
    return replace(match, identity="ambiguous", note=note)


def best_state(tables: Sequence[Tensor], states: Sequence[State]) -> State | None:
    """The state with the least median distance, or ``None`` without a finite row; arguments as in ``identify``."""
    import torch

    rows = torch.cat([table[table.isfinite().all(dim=1)] for table in tables])
    return states[int(rows.median(dim=0).values.argmin())] if len(rows) else None


def _decide(found: Match, *, exact: bool, twin: bool) -> Match:
    """Name the identity; the numbers are in ``found`` already."""
    distance, gap, votes = found.distance or 0.0, found.gap or 0.0, found.votes or 0.0
    floor = found.votes_interval[0] if found.votes_interval else votes
    if twin:
        return replace(found, identity="ambiguous", note="two states of the bank are bit-equal here")
    if exact:
        return replace(found, identity="exact", note="bit-equal in every row")
    if found.floor is not None and found.floor >= MATCH_SHARE_OF_GAP * gap:
        note = f"repeated captures differ by {found.floor:.3g}, neighbouring states by {gap:.3g}"
        return replace(found, identity="ambiguous", note=note)
    unanimous = floor >= UNANIMOUS and (found.margin or 0.0) >= CLEAR_MARGIN
    if distance >= FARTHEST or (distance >= gap and not unanimous):
        return replace(found, identity="none", note=f"no nearer than a wrong state would be (gap {gap:.3g})")
    if distance <= MATCH_SHARE_OF_GAP * gap and floor > MAJORITY:
        return replace(found, identity="match", note=f"within half the gap to the next state (gap {gap:.3g})")
    return replace(found, identity="ambiguous", note=f"nearest, but not within half the gap ({gap:.3g}) and a majority")
