"""The first values of a row of fingerprints, which keep them for the eye: a projected row shows none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hsforensics.flows.bank import BankRequest
from hsforensics.flows.channel_log import Evidence, first_values
from hsforensics.flows.fingerprint_sides import SketchedSample
from hsforensics.flows.memory_bank import MemoryRequest
from hsforensics.flows.pairing import Pair
from hsforensics.matching.align_windows import Places
from hsforensics.states import State

if TYPE_CHECKING:
    from torch import Tensor


def with_first_values(
    item: Evidence, pair: Pair, request: BankRequest, claim: State | None, *, served: bool
) -> Evidence:
    """Evidence of a projected channel with the first values that its fingerprint kept, and without projected numbers.

    Args:
        item: Evidence whose ``row`` counts the rows of the first sample's fingerprint.
        pair: The first sample, with
        request: its request.
        claim: What the channel is said to hold.
        served: Whether the channel is one of the request's served slots.
    """
    bare = replace(item, row=None, values=(), reference=(), claimed_reference=())
    sample = pair.sample
    if item.row is None or not isinstance(sample, SketchedSample) or not isinstance(request, MemoryRequest):
        return bare
    if request.first is None or request.places is None or sample.places is None:
        return bare
    own = request.first.served if served else sample.first
    places: Places = request.places if served else sample.places
    theirs = item.row if served else pair.their_row(item.row)
    return replace(
        bare,
        row=places.rows[item.row],
        values=first_values(own[item.index][item.row]),
        reference=_beside(request.first.states, item.match.state, theirs),
        claimed_reference=_beside(request.first.states, None if claim == item.match.state else claim, theirs),
    )


def _beside(rows: Mapping[State, Tensor], state: State | None, row: int | None) -> tuple[float | None, ...]:
    return () if state is None or row is None or state not in rows else first_values(rows[state][row])
