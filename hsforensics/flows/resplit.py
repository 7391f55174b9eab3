"""Sides whose channels were cut wrongly out of one tensor: joined and cut again, every piece is near a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hsforensics.findings import finding
from hsforensics.flows.bank import Bank
from hsforensics.flows.channel_log import Evidence
from hsforensics.flows.evidence import pair_channels
from hsforensics.flows.pairing import Pair
from hsforensics.matching.distance import distance_tables
from hsforensics.matching.hypotheses.case import FARTHEST_FIT
from hsforensics.matching.split import Piece, other_splits
from hsforensics.states import Finding, State, show_wiring

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 256
"""Rows compared to settle how channels were cut."""


def split_findings(pair: Pair, bank: Bank, trained: Sequence[Evidence], served: Sequence[Evidence]) -> list[Finding]:
    """What the channels of either side hold when they are joined and cut otherwise.

    Only sides with a channel that nothing else explains are tried.

    Args:
        pair: A sample and its request; one decides, since a fault of this kind shows in every sample.
        bank: Holds the request.
        trained: Evidence of the dump's channels.
        served: Evidence of the served channels.
    """
    sides = (("dump", trained, False), ("served", served, True))
    found = (_resplit(pair, bank, side, served=is_served) for side, items, is_served in sides if _lost(items))
    return [note for note in found if note is not None]


def _lost(items: Sequence[Evidence]) -> bool:
    """Whether a channel is neither a state nor explained; values moved to other columns look like a rotation."""
    open_ones = (item for item in items if item.match.known is None)
    return any(item.explanation is None or "rotated" in item.explanation.kinds for item in open_ones)


def _resplit(pair: Pair, bank: Bank, side: str, *, served: bool) -> Finding | None:
    channels = [channel.values for channel in pair_channels(pair, bank, served=served)]
    tokens = bank.read(pair.request).token_ids if served else pair.sample.token_ids
    if any(values.ndim != 2 or len(values) != len(tokens) for values in channels):
        return None
    start, theirs, count = pair.alignment.spans[0]
    count = min(count, ROWS)
    own = theirs if served else start
    cut = [values[own : own + count] for values in channels]
    request, names = bank.read(pair.request), bank.manifest.states
    rows = slice(theirs, theirs + count)
    for words, pieces in other_splits(cut, bank.manifest.hidden_size, (request.state(name)[rows] for name in names)):
        found = [_nearest(piece, {name: request.state(name)[rows] for name in names}) for piece in pieces]
        if all(distance <= FARTHEST_FIT for distance, _ in found):
            verb = "the engine serves" if served else "the dump holds"
            message = f"{verb} {words}: {show_wiring(tuple(state for _, state in found))}, cut wrongly"
            evidence = f"largest distance of a piece {max(distance for distance, _ in found):.3g}"
            return finding("split-width", side, message, evidence)
    return None


def _nearest(piece: Piece, states: dict[State, Tensor]) -> tuple[float, State]:
    """Median distance to, and name of, the state whose columns are nearest to a piece's."""
    columns = slice(piece.column, piece.column + piece.values.shape[1])
    (table,) = distance_tables([piece.values], (rows[:, columns] for rows in states.values()))
    medians = table.nanmedian(dim=0).values.nan_to_num(float("inf"))
    best = int(medians.argmin())
    return float(medians[best]), list(states)[best]
