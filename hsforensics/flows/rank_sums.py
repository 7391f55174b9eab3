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
from hsforensics.matching.self_check import ranks_apart
from hsforensics.states import Finding, State

if TYPE_CHECKING:
    from torch import Tensor

Apart: TypeAlias = "list[tuple[BankRequest, list[Tensor], Tensor]]"
"""Requests in which a slot differs between ranks: the request, what every rank serves in the slot ([T, H] each), and
how far the ranks are apart in each row, [T] (0 where they agree)."""

PAIRS = 4
"""Requests in which ranks that differ are added up."""

GUESSES = ("partial-sum", "served-off-bank")
"""What one rank alone can say of its share; the sum over all of them says more."""

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
    requests, lacking = _by_rank(pairs, bank, others)
    settled, apart = [], list[Finding]()
    for slot, item in enumerate(served):
        differing = _differing(requests, slot)
        found = _sum_of(differing[:PAIRS], bank.manifest.states) if differing else None
        settled.append(item if found is None or found.state is None else _explained(item, found))
        apart += [] if found is None or found.state is not None else [_apart(item, found, differing)]
    return settled, [*lacking, *apart]


@dataclass(frozen=True)
class _Sum:
    """What the ranks hold together: the state and its distance, or no state, and whether any could be tried."""

    ranks: int
    state: int | None
    distance: float
    tried: bool


def _by_rank(
    pairs: Sequence[Pair], bank: Bank, others: Sequence[Bank]
) -> tuple[list[tuple[BankRequest, list[BankRequest]]], list[Finding]]:
    """Every request, and the same one in the captures of other ranks; a finding where one of these lacks it."""
    _refuse_misfits(bank, others)
    found = []
    for pair in {pair.request.file: pair for pair in pairs}.values():
        theirs = []
        for other in others:
            entries = [entry for entry in other.requests if entry.token_ids_sha256 == pair.request.token_ids_sha256]
            if not entries:
                message = f"{other.path} holds no request with the tokens of {pair.sample.name}"
                return [], [finding("tokens-unmatched", str(other.path), message, "the ranks' captures differ")]
            theirs.append(other.read(entries[0]))
        found.append((bank.read(pair.request), theirs))
    return found, []


def _refuse_misfits(bank: Bank, others: Sequence[Bank]) -> None:
    ours = (bank.manifest.hidden_size, bank.manifest.served)
    for other in others:
        theirs = (other.manifest.hidden_size, other.manifest.served)
        if theirs != ours:
            message = (
                f"{other.path} holds {theirs[1]} served slots of width {theirs[0]}, {bank.path} {ours[1]} of {ours[0]}"
            )
            raise HsfError("usage", "--rank", message, "give captures of the other ranks of the same engine")


def _differing(requests: Sequence[tuple[BankRequest, list[BankRequest]]], slot: int) -> Apart:
    found: Apart = []
    for request, others in requests:
        held = [rank[slot] for rank in request.ranks] + [other.served[slot].values for other in others]
        if held:
            by_rank = [request.served[slot].values, *held]
            apart = ranks_apart(by_rank)
            found += [(request, by_rank, apart)] if bool((apart > 0).any()) else []
    return found


def _sum_of(differing: Apart, states: Sequence[State]) -> _Sum:
    summed = sorted((distance, state) for state, distance in _distances(differing, states).items())
    ranks = len(differing[0][1])
    clear = all(rival >= LEAD * summed[0][0] for rival, _ in summed[1:])
    if not summed or summed[0][0] > CONFIRMED or not clear:
        return _Sum(ranks, None, float("inf"), tried=bool(summed))
    return _Sum(ranks, summed[0][1], summed[0][0], tried=True)


def _apart(item: Evidence, found: _Sum, differing: Apart) -> Finding:
    why = "their sum is no known state" if found.tried else "the capture holds no middle states to add them up"
    message = f"{item.label} differs between {found.ranks} ranks; {why}"
    rows = sum(int((apart > 0).sum()) for *_, apart in differing)
    farthest = max(float(apart.max()) for *_, apart in differing)
    evidence = f"in {rows} rows of {len(differing)} requests, up to {farthest:.3g} apart"
    return finding("ranks-disagree", item.label, message, evidence)


def _explained(item: Evidence, found: _Sum) -> Evidence:
    """The evidence of a channel whose ranks hold a state together; what was guessed from one rank alone is dropped."""
    less = f"less {f'{found.ranks - 1} times ' * (found.ranks > 2)}mid:{(found.state or 0) - 1}"
    words = f"a rank's share: the {found.ranks} ranks together hold state {found.state}"
    evidence = f"sum over ranks {less}: {found.distance:.3g} from state {found.state}"
    note = finding("partial-sum", item.label, f"{item.label} is {words}", evidence)
    plain = item.match.distance if item.match.distance is not None else float("inf")
    return replace(
        item,
        match=replace(item.match, identity="none", note=f"is {words}"),
        explanation=Explanation(("partial-sum",), found.state or 0, words, found.distance, max(plain, found.distance)),
        findings=(*(known for known in item.findings if known.code not in GUESSES), note),
    )


def _distances(differing: Apart, states: Sequence[State]) -> dict[int, float]:
    """State -> worst median distance, over requests, of the ranks' sum to it, in the rows where ranks differ."""
    worst: dict[int, float] = {}
    for request, by_rank, apart in differing:
        rows = apart > 0
        for state in states:
            if isinstance(state, int) and f"mid:{state - 1}" in states:
                total = sum_of_ranks([values[rows] for values in by_rank], request.state(f"mid:{state - 1}")[rows])
                column = relative_distance(total, request.state(state)[rows]).nan_to_num(nan=float("inf"))
                worst[state] = max(worst.get(state, 0.0), float(column.median()))
    return worst
