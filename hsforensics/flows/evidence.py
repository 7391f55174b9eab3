"""Gather the evidence for every channel, sample by sample, so that memory holds one sample at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hsforensics.capture.store import Capture, CapturedRequest
from hsforensics.findings import finding
from hsforensics.flows.pairing import Pair
from hsforensics.matching.cheap import CheapRows, cheap_rows, identify_cheaply
from hsforensics.matching.distance import distance_tables, median_norm
from hsforensics.matching.health import HealthIssue, check_channel
from hsforensics.matching.identify import Match, best_state, gap_of, identify
from hsforensics.models.target import Target
from hsforensics.states import Channel, Finding, Sample, State

if TYPE_CHECKING:
    from torch import Tensor

FIRST_VALUES = 5
GAP_PAIRS = 4
"""Samples over which the gap of a state is measured; it varies little between texts."""
_NO_ROWS = Match("unreadable", note="no sample has usable rows of this channel")


@dataclass(frozen=True)
class Evidence:
    """What all samples together say of one channel; fields as in ``hsforensics.results.ChannelRecord``."""

    index: int
    label: str
    match: Match
    norm: float | None
    row: int | None
    values: tuple[float | None, ...]
    reference: tuple[float | None, ...]
    claimed_reference: tuple[float | None, ...]
    findings: tuple[Finding, ...]


@dataclass
class _Log:
    """What was seen of one channel so far: norms and health of each sample, first values of the first one."""

    channel: Channel
    norms: list[float] = field(default_factory=list)
    row: int | None = None
    values: tuple[float | None, ...] = ()
    findings: list[Finding] = field(default_factory=list)

    def admit(self, channel: Channel, sample: str, token_ids: Tensor, hidden_size: int) -> bool:
        """Note a channel's health, norm and first values; whether its rows can be compared."""
        issues = check_channel(channel.values, token_ids, hidden_size)
        self.findings += [_health_finding(issue, f"{sample}, {channel.label}") for issue in issues]
        if any(issue.kind == "shape" for issue in issues) or not len(channel.values):
            return False
        norm = median_norm(channel.values)
        self.norms += [] if norm is None else [norm]
        if self.row is None:
            self.row = min(1, len(channel.values) - 1)  # row 0 is often an attention sink
            self.values = _first_values(channel.values[self.row])
        return True

    def close(self, match: Match, row_of: Callable[[State, int], Tensor | None]) -> Evidence:
        """The evidence, with the first values of the matched and of the claimed state beside the channel's own.

        Args:
            match: What the channel was found to be.
            row_of: Row ([H]) of a state in the first sample, or ``None`` where the evidence at hand lacks it.
        """
        norm = sorted(self.norms)[len(self.norms) // 2] if self.norms else None
        claim = None if self.channel.claim == match.state else self.channel.claim
        return Evidence(
            index=self.channel.index,
            label=self.channel.label,
            match=match,
            norm=norm,
            row=self.row,
            values=self.values,
            reference=self._beside(match.state, row_of),
            claimed_reference=self._beside(claim, row_of),
            findings=tuple(self.findings),
        )

    def _beside(self, state: State | None, row_of: Callable[[State, int], Tensor | None]) -> tuple[float | None, ...]:
        row = None if state is None or self.row is None else row_of(state, self.row)
        return () if row is None else _first_values(row)


def files_evidence(samples: Sequence[Sample], target: Target) -> list[Evidence]:
    """Evidence for every dump channel from the target's files alone: embedding rows and final norm."""
    gain = target.norm_weight()  # [H]
    logs = [_Log(channel) for channel in samples[0].channels]
    seen: list[list[CheapRows]] = [[] for _ in logs]
    for sample in samples:
        rows = target.embedding_rows(sample.token_ids)  # [T, H]
        for log, parts, channel in zip(logs, seen, sample.channels, strict=True):
            if log.admit(channel, sample.name, sample.token_ids, target.hidden_size):
                parts.append(cheap_rows(channel.values, rows, gain))
    matches = [identify_cheaply(parts) if parts else _NO_ROWS for parts in seen]

    def row_of(state: State, row: int) -> Tensor | None:
        return target.embedding_rows(samples[0].token_ids[row : row + 1])[0] if state == 0 else None

    return [log.close(match, row_of) for log, match in zip(logs, matches, strict=True)]


def bank_evidence(pairs: Sequence[Pair], capture: Capture, *, served: bool, device: str, seed: int) -> list[Evidence]:
    """Evidence for every dump channel (or, with ``served``, every served one) against all states of the bank.

    Args:
        pairs: Samples with the request of the same tokens; not empty.
        capture: The capture that holds the requests.
        served: Judge the capture's served channels instead of the dump's.
        device: Where the distances are computed.
        seed: Seed of the bootstrap.
    """
    states = capture.manifest.states
    logs = [_Log(channel) for channel in _channels(pairs[0], capture, served=served)]
    tables: list[list[Tensor]] = [[] for _ in logs]
    for pair in pairs:
        request = capture.read(pair.request)
        tokens = request.token_ids if served else pair.sample.token_ids
        fit: list[int] = []
        channels = _channels(pair, capture, served=served)
        for place, (log, channel) in enumerate(zip(logs, channels, strict=True)):
            if log.admit(channel, pair.sample.name, tokens, capture.manifest.hidden_size):
                fit.append(place)
        values = [channels[place].values[: pair.rows].to(device) for place in fit]
        bank = (request.state(state)[: pair.rows].to(device) for state in states)
        for place, table in zip(fit, distance_tables(values, bank), strict=False):
            tables[place].append(table.cpu())
    gaps = _Gaps(capture, pairs)
    return [_close_bank(log, parts, capture, pairs, gaps, seed) for log, parts in zip(logs, tables, strict=True)]


def _channels(pair: Pair, capture: Capture, *, served: bool) -> Sequence[Channel]:
    return capture.read(pair.request).served if served else pair.sample.channels


def _close_bank(
    log: _Log, tables: Sequence[Tensor], capture: Capture, pairs: Sequence[Pair], gaps: _Gaps, seed: int
) -> Evidence:
    states = capture.manifest.states

    def row_of(state: State, row: int) -> Tensor | None:
        return capture.read(pairs[0].request).state(state)[row] if state in states and row < pairs[0].rows else None

    best = best_state(tables, states) if tables else None
    match = _NO_ROWS if best is None else identify(tables, states, gaps[best], seed)
    return log.close(match, row_of)


class _Gaps(dict[State, float]):
    """Gap of a state (see ``identify``), measured over the first few pairs when first asked for."""

    def __init__(self, capture: Capture, pairs: Sequence[Pair]) -> None:
        super().__init__()
        self._requests = [capture.read(pair.request) for pair in pairs[:GAP_PAIRS]]

    def __missing__(self, state: State) -> float:
        found = sorted(_gap_in(request, state) for request in self._requests)
        self[state] = found[len(found) // 2]
        return self[state]


def _gap_in(request: CapturedRequest, state: State) -> float:
    others = (request.state(other) for other in request.states if other != state)
    return gap_of(request.state(state), others)


def _first_values(row: Tensor) -> tuple[float | None, ...]:
    """The first five values of a row [H], as people compare them by eye; ``None`` for what is not finite."""
    return tuple(float(value) if bool(value.isfinite()) else None for value in row[:FIRST_VALUES].float())


def _health_finding(issue: HealthIssue, where: str) -> Finding:
    code = "rows-constant" if issue.kind == "constant" else "channel-unreadable"
    return finding(code, where, issue.message, f"{issue.rows} rows, first {issue.first}")
