"""Channels whose rows do not fit the tokens: values say which tokens they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hsforensics.findings import finding
from hsforensics.flows.bank import Bank
from hsforensics.flows.channel_log import Evidence
from hsforensics.flows.pairing import Pair
from hsforensics.matching.distance import distance_tables
from hsforensics.matching.groups import some
from hsforensics.matching.hypotheses.case import FARTHEST_FIT, RIVAL_SHARE
from hsforensics.states import Finding, State, show_state

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 256
"""Rows compared to settle a shape."""


def settle_shapes(
    pairs: Sequence[Pair], bank: Bank, trained: Sequence[Evidence]
) -> tuple[list[Evidence], list[Finding]]:
    """Dump channels that could not be compared because they have fewer or more rows than tokens.

    Returns:
        The evidence, where short files that values explain are no longer told as unreadable; and the findings.
    """
    settled, found = [], list[Finding]()
    for item in trained:
        short = [(pair, values) for pair in pairs if _is_short(pair, values := _rows(pair, item))]
        fits = [(pair, fit) for pair, values in short if (fit := _short(pair, bank, values)) is not None]
        found += _told(item.label, fits)
        settled.append(replace(item, short=()) if short and len(fits) == len(short) else item)
    return settled, found


@dataclass(frozen=True)
class _Short:
    """Which tokens the rows of a channel belong to, in words, and how near to which state they are so and otherwise."""

    words: str
    state: State | None
    distance: float
    otherwise: float


def _rows(pair: Pair, item: Evidence) -> Tensor:
    return pair.sample.channels[item.index].values


def _is_short(pair: Pair, values: Tensor) -> bool:
    return values.ndim == 2 and len(values) != len(pair.sample.token_ids)


def _short(pair: Pair, bank: Bank, values: Tensor) -> _Short | None:
    """Rows that are fewer or more than the tokens: do the first rows, or the last, fit them?"""
    rows, tokens = len(values), len(pair.sample.token_ids)
    if values.shape[1:] != (bank.manifest.hidden_size,) or rows < 2:
        return None
    fits = {offset: _fit(pair, bank, values, offset) for offset in {0, tokens - rows}}
    offset = min(fits, key=lambda item: fits[item][0])
    distance, state = fits[offset]
    worst = max(item[0] for item in fits.values())
    if distance > min(FARTHEST_FIT, RIVAL_SHARE * worst):
        return None
    place = "first" if offset == 0 else "last"
    which = f"its {rows} rows are those of the {place} {rows} of {tokens} tokens"
    if rows > tokens:
        which = f"its {place} {tokens} of {rows} rows are those of the {tokens} tokens"
    return _Short(which, state, distance, worst)


def _told(label: str, fits: Sequence[tuple[Pair, _Short]]) -> Iterator[Finding]:
    """One finding for each state that short files of a channel hold."""
    for state in dict.fromkeys(fit.state for _, fit in fits):
        same = [(pair.sample.name, fit) for pair, fit in fits if fit.state == state]
        name, first = same[0]
        message = f"{label}: {first.words}, and hold {show_state(state)}"
        if len(same) > 1:
            message += f", in {name}; {len(same)} samples are so"
        distance, otherwise = max(fit.distance for _, fit in same), min(fit.otherwise for _, fit in same)
        where = f"{some([name for name, _ in same])}, {label}"
        yield finding("rows-short", where, message, f"distance {distance:.3g} so, {otherwise:.3g} otherwise")


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
