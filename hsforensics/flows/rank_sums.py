"""Do the tensor-parallel ranks serve the same values? If not, of which state does each hold a share?

An engine that defers the all-reduce after a layer's MLP into the next layer's norm holds, in between, the middle state
plus this rank's part of the MLP's output. Whoever taps the stream there feeds each rank's drafter something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from hsforensics.errors import HsfError
from hsforensics.findings import finding
from hsforensics.flows.bank import Bank, BankRequest
from hsforensics.flows.channel_log import Evidence
from hsforensics.flows.pairing import Pair
from hsforensics.matching.distance import relative_distance
from hsforensics.matching.hypotheses.case import Explanation
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


def settle_ranks(
    pairs: Sequence[Pair], bank: Bank, others: Sequence[Bank], served: Sequence[Evidence]
) -> tuple[list[Evidence], list[Finding]]:
    """Served channels that differ between ranks: added over all, less the middle states counted too often.

    Args:
        pairs: Samples with their requests.
        bank: The capture; it may hold other ranks itself.
        others: Captures of other ranks.
        served: Evidence of each served slot.

    Returns:
        The evidence, with an explanation wherever the sum is a state; and findings of ranks that cannot be added up.

    Raises:
        HsfError: ``usage``: a capture of another width is given for a rank.
    """
    shares, lacking = _shares(pairs[:PAIRS], bank, others)
    if not shares:
        return list(served), lacking
    settled, apart = [], list[Finding]()
    for slot, item in enumerate(served):
        spread = max((spread_of_ranks(slots[slot]) for _, slots in shares if slot < len(slots)), default=0.0)
        found = _sum_of(shares, slot, bank.manifest.states) if spread > _tolerance(shares) else None
        settled.append(item if found is None or found.state is None else _explained(item, found, spread))
        apart += [] if found is None or found.state is not None else [_apart(item, found, spread)]
    return settled, apart


@dataclass(frozen=True)
class _Sum:
    """What the ranks hold together: the state and its distance, or no state, and whether any could be tried."""

    ranks: int
    state: int | None
    distance: float
    tried: bool


def _shares(pairs: Sequence[Pair], bank: Bank, others: Sequence[Bank]) -> tuple[Shares, list[Finding]]:
    """What every rank served, request by request; and a finding where a rank's capture lacks one."""
    shares: Shares = []
    _refuse_other_width(bank, others)
    for pair in pairs:
        request = bank.read(pair.request)
        by_rank = [[channel.values for channel in request.served], *map(list, request.ranks)]
        for other in others:
            entries = [entry for entry in other.requests if entry.token_ids_sha256 == pair.request.token_ids_sha256]
            if not entries:
                message = f"{other.path} holds no request with the tokens of {pair.sample.name}"
                return [], [finding("tokens-unmatched", str(other.path), message, "the ranks' captures differ")]
            by_rank.append([channel.values for channel in other.read(entries[0]).served])
        if len(by_rank) > 1:
            shares.append((request, [list(slot) for slot in zip(*by_rank, strict=False)]))
    return shares, []


def _refuse_other_width(bank: Bank, others: Sequence[Bank]) -> None:
    width = bank.manifest.hidden_size
    for other in others:
        if other.manifest.hidden_size != width:
            message = f"{other.path} holds states of width {other.manifest.hidden_size}, {bank.path} of width {width}"
            raise HsfError("usage", "--rank", message, "give captures of the other ranks of the same engine")


def _tolerance(shares: Shares) -> float:
    return max((rank_tolerance(slot[0]) for _, slots in shares for slot in slots), default=0.0)


def _sum_of(shares: Shares, slot: int, states: Sequence[State]) -> _Sum:
    summed = sorted((distance, state) for state, distance in _distances(shares, slot, states).items())
    ranks = len(shares[0][1][slot])
    clear = all(rival >= LEAD * summed[0][0] for rival, _ in summed[1:])
    if not summed or summed[0][0] > CONFIRMED or not clear:
        return _Sum(ranks, None, float("inf"), tried=bool(summed))
    return _Sum(ranks, summed[0][1], summed[0][0], tried=True)


def _apart(item: Evidence, found: _Sum, spread: float) -> Finding:
    why = "their sum is no known state" if found.tried else "the capture holds no middle states to add them up"
    message = f"{item.label} differs between {found.ranks} ranks; {why}"
    return finding("ranks-disagree", item.label, message, f"the ranks' values are {spread:.3g} apart")


def _explained(item: Evidence, found: _Sum, spread: float) -> Evidence:
    """The evidence of a channel whose ranks hold a state together; what was guessed from one rank alone is dropped."""
    less = f"less {f'{found.ranks - 1} times ' * (found.ranks > 2)}mid:{(found.state or 0) - 1}"
    words = f"a rank's share: the {found.ranks} ranks together hold state {found.state}"
    evidence = f"sum over ranks {less}: {found.distance:.3g} from state {found.state}"
    note = finding(
        "partial-sum", item.label, f"{item.label} is {words}", f"{evidence}; the ranks are {spread:.3g} apart"
    )
    plain = item.match.distance if item.match.distance is not None else float("inf")
    return replace(
        item,
        match=replace(item.match, identity="none", note=f"is {words}"),
        explanation=Explanation(("partial-sum",), found.state or 0, words, found.distance, max(plain, found.distance)),
        findings=(*(known for known in item.findings if known.code != "partial-sum"), note),
    )


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
