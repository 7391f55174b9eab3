"""Gather the evidence for every channel, sample by sample, so that memory holds one sample at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hsforensics.findings import finding
from hsforensics.flows.bank import Bank, BankRequest
from hsforensics.flows.bank_check import missing_states
from hsforensics.flows.by_sample import files_by_sample
from hsforensics.flows.channel_log import ChannelLog, Evidence
from hsforensics.flows.embedding_lag import known_tokens, lagged_embedding
from hsforensics.flows.first_values import with_first_values
from hsforensics.flows.health_findings import SERVED_PREFIX
from hsforensics.flows.memory_bank import MemoryBank
from hsforensics.flows.pairing import Pair
from hsforensics.flows.repeats import Repeats
from hsforensics.matching.agreement import DISAGREE_SHARE
from hsforensics.matching.cheap import CheapRows, cheap_rows, identify_cheaply
from hsforensics.matching.distance import distance_tables, relative_distance
from hsforensics.matching.floats import computable
from hsforensics.matching.identify import Match, best_state, capped, gap_of, identify, off_bank
from hsforensics.matching.self_check import rows_off_bank
from hsforensics.models.target import Target
from hsforensics.states import Channel, Sample, State, is_middle, show_state

if TYPE_CHECKING:
    from torch import Tensor

GAP_PAIRS = 4
"""Samples over which the gap and the noise floor of a state are measured; they vary little between texts."""
_NO_ROWS = Match("unreadable", note="no sample has usable rows of this channel")


def files_evidence(samples: Sequence[Sample], target: Target, repeats: Repeats, seed: int) -> list[Evidence]:
    """Evidence for every dump channel from the target's files alone: embedding rows and final norm.

    Args:
        samples: With equally many channels each.
        target: The target's files.
        repeats: Of the samples: copies do not count.
        seed: Seed of the bootstrap.
    """
    gain = target.norm_weight()  # [H]
    logs = [ChannelLog(channel) for channel in samples[0].channels]
    seen: list[dict[int, CheapRows]] = [{} for _ in logs]
    for number, sample in enumerate(samples):
        known = known_tokens(sample.token_ids, target.vocab_size)  # [T]
        rows = target.embedding_rows(sample.token_ids[known])  # [T', H]
        for log, parts, channel in zip(logs, seen, sample.channels, strict=True):
            counts = repeats.counts(number, served=False)
            if log.admit(channel, sample.name, sample.token_ids, target.hidden_size, counts=counts):
                parts[number] = cheap_rows(channel.values[known], rows, gain)
    matches = [identify_cheaply(list(parts.values())) if parts else _NO_ROWS for parts in seen]

    def row_of(state: State, row: int) -> Tensor | None:
        ids = samples[0].token_ids[row : row + 1]
        usable = state == 0 and bool(known_tokens(ids, target.vocab_size).all())
        return target.embedding_rows(ids)[0] if usable else None

    closed = [log.close(match, row_of) for log, match in zip(logs, matches, strict=True)]
    return [
        files_by_sample(item, lagged_embedding(item, samples, target), parts, samples, target, seed)
        for item, parts in zip(closed, seen, strict=True)
    ]


class Yardsticks:
    """The bank's own measures of its states: how far the next state is, and how much repeated captures differ.

    Args:
        bank: The capture.
        pairs: What is compared; the first few serve to measure.
        repeat: A second capture of the same tokens by the same engine, or ``None``.
    """

    def __init__(self, bank: Bank, pairs: Sequence[Pair], repeat: Bank | None = None) -> None:
        self._requests = [bank.read(pair.request) for pair in pairs[:GAP_PAIRS]]
        self._states = bank.manifest.states
        self._again = _same_requests(pairs[:GAP_PAIRS], repeat) if repeat else None
        self._gaps: dict[State, float] = {}

    def gap(self, state: State) -> float:
        """Median distance of a state to its nearest rival (see ``identify`` and ``rivals_of``)."""
        if state not in self._gaps:
            self._gaps[state] = _middle([self._gap_in(request, state) for request in self._requests])
        return self._gaps[state]

    def floor(self, state: State) -> float | None:
        """Median distance of a state between the two captures; ``None`` without a second one."""
        if not self._again:
            return None
        pairs = zip(self._requests, self._again, strict=True)
        found = [(ours.state(state), again.state(state)) for ours, again in pairs if again is not None]
        distances = [float(relative_distance(a, b).nanmedian()) for a, b in found if a.shape == b.shape]
        return _middle(distances) if distances else None

    def _gap_in(self, request: BankRequest, state: State) -> float:
        others = (request.state(other) for other in rivals_of(state, self._states) if other != state)
        return gap_of(request.state(state), others)


def rivals_of(best: State, states: Sequence[State]) -> tuple[State, ...]:
    """The states that a channel might be, given the nearest of all.

    Middle states count when one of them is the nearest. Otherwise they do not, or recording them would turn channels
    that noise moves by a quarter of a layer from matches into strangers; ``lean`` tells what lies on the way to one.
    """
    middle = is_middle(best)
    return tuple(state for state in states if middle or not is_middle(state))


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _same_requests(pairs: Sequence[Pair], repeat: Bank) -> list[BankRequest | None]:
    """The requests of a second capture with the very token ids of the first one's."""
    known = {entry.token_ids_sha256: entry for entry in repeat.requests}
    found = (known.get(pair.request.token_ids_sha256) for pair in pairs)
    return [None if entry is None else repeat.read(entry) for entry in found]


def bank_logs(pairs: Sequence[Pair], bank: Bank, repeats: Repeats, *, served: bool, device: str) -> list[ChannelLog]:
    """Every dump channel (or, with ``served``, every served one) with its distances to all states of the bank.

    Args:
        pairs: Samples with the request of the same tokens; not empty.
        bank: The capture that holds the requests.
        repeats: Of the pairs: copies are looked at for their health, and not compared again.
        served: Look at the capture's served channels instead of the dump's.
        device: Where the distances are computed.
    """
    logs = [ChannelLog(channel) for channel in pair_channels(pairs[0], bank, served=served)]
    for number, pair in enumerate(pairs):
        counts = repeats.counts(number, served=served)
        if counts or not served:
            _look(logs, number, pair, bank, served=served, device=device, counts=counts)
    return logs


def bank_evidence(
    logs: Sequence[ChannelLog],
    pairs: Sequence[Pair],
    bank: Bank,
    yardsticks: Yardsticks,
    repeats: Repeats,
    *,
    served: bool,
    seed: int,
) -> list[Evidence]:
    """What ``bank_logs`` saw, judged; ``bank`` holds the states of the logs' columns.

    Args:
        logs: Of all channels of a side.
        pairs: As in ``bank_logs``.
        bank: As in ``bank_logs``, or less the states that were dropped from the logs.
        yardsticks: Gap and noise floor of its states.
        repeats: Of the pairs: intervals are over their sequences.
        served: As in ``bank_logs``.
        seed: Seed of the bootstrap.
    """
    return [_close(log, bank, pairs, yardsticks, repeats, seed, served=served) for log in logs]


def pair_channels(pair: Pair, bank: Bank, *, served: bool) -> Sequence[Channel]:
    """The channels of one side of a pair, all rows."""
    return bank.read(pair.request).served if served else pair.sample.channels


def _look(
    logs: Sequence[ChannelLog], number: int, pair: Pair, bank: Bank, *, served: bool, device: str, counts: bool
) -> None:
    """Admit every channel of a pair to its log, and add its distances to all states if they count."""
    request = bank.read(pair.request)
    tokens = request.token_ids if served else pair.sample.token_ids
    name = f"{SERVED_PREFIX}{pair.sample.name}" if served else pair.sample.name
    channels = pair_channels(pair, bank, served=served)
    fit: list[tuple[ChannelLog, Tensor]] = []
    for log, channel in zip(logs, channels, strict=True):
        if log.admit(channel, name, tokens, bank.manifest.hidden_size, counts=counts):
            rows = pair.theirs(channel.values) if served else pair.ours(channel.values)
            fit.append((log, computable(rows).to(device)))
    states = (pair.theirs(request.state(state)).to(device) for state in bank.manifest.states)
    tables = distance_tables([rows for _, rows in fit], states)
    for (log, rows), table in zip(fit, tables, strict=False):
        table[(rows == 0).all(dim=1)] = float("nan")  # a zero row says nothing; health has reported it
        log.tables.append((number, table.cpu()))


def _close(
    log: ChannelLog,
    bank: Bank,
    pairs: Sequence[Pair],
    yardsticks: Yardsticks,
    repeats: Repeats,
    seed: int,
    *,
    served: bool,
) -> Evidence:
    states = bank.manifest.states
    request = bank.read(pairs[0].request)

    def row_of(state: State, row: int) -> Tensor | None:
        place = row if served else pairs[0].their_row(row)
        return request.state(state)[place] if state in states and place is not None else None

    tables = _by_unit(log, repeats, served=served)
    best = best_state(tables, states) if tables else None
    if best is None:
        return log.close(_NO_ROWS, row_of)
    rivals = rivals_of(best, states)
    columns = [states.index(state) for state in rivals]
    tables = [table[:, columns] for table in tables]
    match = identify(tables, rivals, yardsticks.gap(best), seed, yardsticks.floor(best))
    match = capped(match) if missing_states(bank.manifest) else match
    if not (isinstance(bank, MemoryBank) and bank.sketched):
        one_pass = served and bank.manifest.kind == "live"
        apart = rows_off_bank(tables, rivals.index(best), log.channel.values.dtype) if one_pass else 0.0
        return log.close(match, row_of) if apart <= DISAGREE_SHARE else _off_bank(log, match, apart, row_of)
    if match.identity == "exact":
        match = replace(match, identity="match", note="equal fingerprints, which cannot prove equal bits")
    closed = log.close(match, row_of)
    return with_first_values(closed, pairs[0], request, log.channel.claim, served=served)


def _off_bank(log: ChannelLog, match: Match, share: float, row_of: Callable[[State, int], Tensor | None]) -> Evidence:
    """A served channel that the bank of its own pass does not hold: near a state is not enough there."""
    closed = log.close(off_bank(match, share), row_of)
    if match.known is None:
        return closed
    message = f"{closed.label} is not {show_state(match.state)} of its own pass, though nearest to it"
    evidence = (
        f"{share:.0%} of {match.tokens} rows are farther than rounding explains, the median by {match.distance:.3g}"
    )
    return replace(closed, findings=(*closed.findings, finding("served-off-bank", closed.label, message, evidence)))


def _by_unit(log: ChannelLog, repeats: Repeats, *, served: bool) -> list[Tensor]:
    """One table [T, S] for each sequence, in however many files that agree it was compared."""
    import torch

    homes: dict[int, list[Tensor]] = {}
    for number, table in log.tables:
        homes.setdefault(repeats.drawn_as(number, served=served), []).append(table)
    return [torch.cat(parts) for parts in homes.values()]
