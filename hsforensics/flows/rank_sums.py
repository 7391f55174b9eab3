"""Do the tensor-parallel ranks serve the same values? If not, of which state does each hold a share?

An engine that defers the all-reduce after a layer's MLP into the next layer's norm holds, in between, the middle state
plus this rank's part of the MLP's output. Whoever taps the stream there feeds each rank's drafter something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from hsforensics.findings import finding
from hsforensics.flows.bank import Bank, BankRequest
from hsforensics.flows.channel_log import Evidence
from hsforensics.flows.pairing import Pair
from hsforensics.matching.distance import relative_distance
from hsforensics.matching.hypotheses.stream import sum_of_ranks
from hsforensics.matching.self_check import rank_tolerance, spread_of_ranks
from hsforensics.states import Finding, State

if TYPE_CHECKING:
    from torch import Tensor

Shares: TypeAlias = "list[tuple[BankRequest, list[list[Tensor]]]]"
"""For each request: the request, and for each slot what every rank served, [T, H] each."""

PAIRS = 4
"""Requests in which ranks are added up."""

CONFIRMED = 0.05
"""The sum over ranks is a state within this median relative distance, in every request."""

LEAD = 2.0
"""The nearest state must be this many times nearer than the next one."""


def rank_findings(
    pairs: Sequence[Pair], bank: Bank, others: Sequence[Bank], served: Sequence[Evidence]
) -> list[Finding]:
    """Served channels that differ between ranks: added over all, less the middle states counted too often.

    Args:
        pairs: Samples with their requests.
        bank: The capture; it may hold other ranks itself.
        others: Captures of other ranks.
        served: Evidence of each served slot.
    """
    shares: Shares = []
    for pair in pairs[:PAIRS]:
        request = bank.read(pair.request)
        by_rank = [[channel.values for channel in request.served], *map(list, request.ranks)]
        for other in others:
            entries = [entry for entry in other.requests if entry.token_ids_sha256 == pair.request.token_ids_sha256]
            if not entries:
                message = f"{other.path} holds no request with the tokens of {pair.sample.name}"
                return [finding("tokens-unmatched", str(other.path), message, "the ranks' captures differ")]
            by_rank.append([channel.values for channel in other.read(entries[0]).served])
        if len(by_rank) > 1:
            shares.append((request, [list(slot) for slot in zip(*by_rank, strict=False)]))
    found = [_judge(shares, slot, item.label, bank.manifest.states) for slot, item in enumerate(served) if shares]
    return [note for note in found if note is not None]


def without_guesses(notes: Sequence[Finding], sums: Sequence[Finding]) -> list[Finding]:
    """Findings without the partial sums that were guessed from one rank where adding up all of them has told."""
    told = {note.where for note in sums if note.code == "partial-sum"}
    return [note for note in notes if note.code != "partial-sum" or note.where not in told]


def _judge(shares: Shares, slot: int, label: str, states: Sequence[State]) -> Finding | None:
    held = [slots[slot] for _, slots in shares if slot < len(slots)]
    spread = max((spread_of_ranks(values) for values in held), default=0.0)
    if not held or spread <= rank_tolerance(held[0][0]):
        return None
    ranks = len(held[0])
    summed = sorted((distance, state) for state, distance in _distances(shares, slot, states).items())
    apart = f"the ranks' values are {spread:.3g} apart"
    if not summed or summed[0][0] > CONFIRMED or any(rival < LEAD * summed[0][0] for rival, _ in summed[1:]):
        why = "; their sum is no known state" if summed else "; the capture holds no middle states to add them up"
        return finding("ranks-disagree", label, f"{label} differs between {ranks} ranks{why}", apart)
    distance, state = summed[0]
    message = f"{label} is a rank's share: the {ranks} ranks together hold state {state}"
    minus = f"less mid:{state - 1}" if ranks == 2 else f"less {ranks - 1} times mid:{state - 1}"
    return finding("partial-sum", label, message, f"sum over ranks {minus}: {distance:.3g} from state {state}; {apart}")


def _distances(shares: Shares, slot: int, states: Sequence[State]) -> dict[int, float]:
    """State -> worst median distance, over requests, of the ranks' sum to it."""
    worst: dict[int, float] = {}
    for request, slots in shares:
        for state in states:
            if isinstance(state, int) and f"mid:{state - 1}" in states:
                total = sum_of_ranks(slots[slot], request.state(f"mid:{state - 1}"))
                distance = float(relative_distance(total, request.state(state)).nan_to_num(nan=float("inf")).median())
                worst[state] = max(worst.get(state, 0.0), distance)
    return worst
