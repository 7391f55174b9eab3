"""A contract's imprints against a capture: does the engine feed the values that the drafter was trained on?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from hsforensics.capture.manifest import token_ids_sha256
from hsforensics.drafter.contract import VALUES, Contract, Imprint

if TYPE_CHECKING:
    from torch import Tensor

    from hsforensics.capture.store import Capture, CapturedRequest
    from hsforensics.states import State

SAME = 0.05
"""Relative distance up to which rows are the same state computed by another program; neighbours are farther apart."""


@dataclass(frozen=True)
class SlotDistance:
    """One slot of the wiring against a capture.

    Attributes:
        slot: Number in ``fc`` order.
        served: Median relative distance of the promised rows to what the engine fed; ``None`` if nothing was fed.
        state: The capture's state that the promised rows are nearest to; ``None`` without a bank that
            holds the promised one.
        distance: Its distance.
    """

    slot: int
    served: float | None
    state: State | None
    distance: float | None


def compare_with(contract: Contract, capture: Capture) -> tuple[tuple[SlotDistance, ...], int]:
    """Compare every slot.

    Returns:
        One record for each slot, and the number of rows compared; 0 when no request starts with the same tokens.
    """
    pairs = [(mark, request) for mark in contract.imprints for request in _requests(mark, capture)]
    rows = sum(len(mark.rows) for mark, _ in pairs)
    if not pairs:
        return (), 0
    return tuple(_slot(contract, slot, pairs, capture) for slot in range(len(contract.states))), rows


@dataclass(frozen=True)
class NoTokens:
    """Why no request of a capture has a contract's tokens: what is wrong, on what evidence, and what mends it."""

    message: str
    evidence: str
    remedy: str


def why_no_tokens(contract: Contract, capture: Capture) -> NoTokens:
    """The reason, for a capture in which ``compare_with`` found no rows."""
    wanted = [mark.tokens for mark in contract.imprints]
    if not wanted:
        message = "the contract keeps no values, so nothing in a capture can be compared with it"
        remedy = "Write the contract anew with --dumps, from the data that the drafter was trained on."
        return NoTokens(message, "written without values", remedy)
    longest = max((entry.rows for entry in capture.requests), default=0)
    if longest < min(wanted):
        needs = (
            f"the contract's sequences are known by their first {' and '.join(map(str, sorted(set(wanted))))} tokens"
        )
        message = f"{needs}, and the longest request has {longest} rows: too few to recognise them"
        remedy = f"Capture the same dumps with at least {min(wanted)} tokens of each: a larger --max-tokens, or none."
        return NoTokens(message, f"needed {min(wanted)} rows, got {longest}", remedy)
    fitting = [entry for entry in capture.requests if entry.rows >= min(wanted)]
    late = sum(int(capture.read(entry).positions[0]) != 0 for entry in fitting)
    message = f"no request starts with the tokens of the contract's {len(wanted)} sequences"
    evidence = f"hashes of the first tokens of {len(fitting)} requests that are long enough"
    if late == len(fitting):
        evidence += ", all of which lack their first rows"
        return NoTokens(message, evidence, "Capture the dumps of the contract whole, without a cached prefix.")
    return NoTokens(message, evidence, "Capture the dumps that the contract took its values from.")


def _requests(mark: Imprint, capture: Capture) -> list[CapturedRequest]:
    """The first request that starts with the imprint's tokens, computed from the sequence's start."""
    for entry in capture.requests:
        if entry.rows >= mark.tokens:
            request = capture.read(entry)
            whole = int(request.positions[0]) == 0
            if whole and token_ids_sha256(request.token_ids[: mark.tokens]) == mark.tokens_sha256:
                return [request]
    return []


def _slot(
    contract: Contract, slot: int, pairs: Sequence[tuple[Imprint, CapturedRequest]], capture: Capture
) -> SlotDistance:
    count = capture.manifest.served

    def fed(request: CapturedRequest) -> Tensor:
        return request.served[slot].values

    served = _distance(slot, pairs, fed) if slot < count else None
    bank = {state: _distance(slot, pairs, _reader(state)) for state in capture.manifest.states}
    if contract.states[slot] not in bank:
        return SlotDistance(slot, served, None, None)
    best = min(bank, key=lambda state: bank[state])
    return SlotDistance(slot, served, best, bank[best])


def _reader(state: State) -> Callable[[CapturedRequest], Tensor]:
    return lambda request: request.state(state)


def _distance(
    slot: int, pairs: Sequence[tuple[Imprint, CapturedRequest]], read: Callable[[CapturedRequest], Tensor]
) -> float:
    """Median over rows of the larger of two: ``|x - y| / |y|`` over the first values, and ``| |x| / |y| - 1 |``.

    Rows that are not finite count as infinitely far.
    """
    import torch

    found: list[float] = []
    for mark, request in pairs:
        x = read(request)[list(mark.rows)].float()  # [R, H]
        y = torch.tensor(mark.values[slot])  # [R, VALUES]
        apart = (x[:, :VALUES] - y).norm(dim=1) / y.norm(dim=1).clamp_min(1e-30)
        norms = torch.tensor(mark.norms[slot])
        longer = (x.norm(dim=1) / norms.clamp_min(1e-30) - 1).abs()
        worst = torch.maximum(apart, longer)
        found += torch.where(worst.isfinite(), worst, torch.inf).tolist()
    return float(median(found))
