"""Channels whose shape does not fit: rows that belong to other tokens, and tensors that were cut wrongly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hsforensics.findings import finding
from hsforensics.flows.bank import Bank
from hsforensics.flows.channel_log import Evidence
from hsforensics.flows.pairing import Pair
from hsforensics.flows.resplit import split_findings
from hsforensics.matching.distance import distance_tables
from hsforensics.matching.hypotheses.case import FARTHEST_FIT, RIVAL_SHARE
from hsforensics.states import Channel, Finding, State, show_state

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 256
"""Rows compared to settle a shape."""


def structure_findings(
    pairs: Sequence[Pair], bank: Bank, trained: Sequence[Evidence], served: Sequence[Evidence]
) -> list[Finding]:
    """Findings about channels that could not be compared, or that fit no state, because of their shape.

    The first pair decides: a producer's fault of this kind shows in every sample.
    """
    pair = pairs[0]
    found = [note for channel in pair.sample.channels for note in _short(pair, bank, channel)]
    return found + split_findings(pair, bank, trained, served)


def _short(pair: Pair, bank: Bank, channel: Channel) -> Iterator[Finding]:
    """Rows that are fewer or more than the tokens: do the first rows, or the last, fit them?"""
    rows, tokens = len(channel.values), len(pair.sample.token_ids)
    if rows == tokens or channel.values.shape[1:] != (bank.manifest.hidden_size,) or rows < 2:
        return
    fits = {offset: _fit(pair, bank, channel.values, offset) for offset in {0, tokens - rows}}
    offset = min(fits, key=lambda item: fits[item][0])
    distance, state = fits[offset]
    worst = max(item[0] for item in fits.values())
    if distance > min(FARTHEST_FIT, RIVAL_SHARE * worst):
        return
    place = "first" if offset == 0 else "last"
    which = f"its {rows} rows are those of the {place} {rows} of {tokens} tokens"
    if rows > tokens:
        which = f"its {place} {tokens} of {rows} rows are those of the {tokens} tokens"
    message = f"{channel.label}: {which}, and hold {show_state(state)}"
    where = f"{pair.sample.name}, {channel.label}"
    yield finding("rows-short", where, message, f"distance {distance:.3g} so, {worst:.3g} otherwise")


def _fit(pair: Pair, bank: Bank, values: Tensor, offset: int) -> tuple[float, State | None]:
    """Distance of the best state when row r of the channel belongs to token r + offset."""
    ours = [
        (row - offset, theirs + row - start)
        for start, theirs, count in pair.alignment.spans
        for row in range(start, start + count)
        if 0 <= row - offset < len(values)
    ][-ROWS:]
    if not ours:
        return float("inf"), None
    mine, other = (list(side) for side in zip(*ours, strict=True))
    return _best(values[mine], pair, bank, other)


def _best(values: Tensor, pair: Pair, bank: Bank, rows: Sequence[int]) -> tuple[float, State | None]:
    """Median distance to, and name of, the nearest state: [n, H] against the given rows of the request."""
    request = bank.read(pair.request)
    states = bank.manifest.states
    (table,) = distance_tables([values], (request.state(state)[list(rows)] for state in states))
    medians = table.nanmedian(dim=0).values
    best = int(medians.nan_to_num(float("inf")).argmin())
    return float(medians[best]), states[best]
