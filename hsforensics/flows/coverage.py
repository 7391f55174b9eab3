"""What a comparison did not look at, or looked at too little of: said, never passed over in silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hsforensics.findings import finding
from hsforensics.flows.bank import Bank, BankRequest
from hsforensics.flows.evidence import Yardsticks
from hsforensics.flows.pairing import Pair
from hsforensics.matching.agreement import DISAGREE_SHARE, rows_away
from hsforensics.matching.distance import distance_tables
from hsforensics.matching.verdict import Judgement
from hsforensics.results import ChannelRecord
from hsforensics.states import Finding, State, Wiring, show_state

FEW_SEQUENCES, FEW_TOKENS = 2, 32
"""Fewer sequences or tokens than these are reported."""

LEAST_TOKENS = 8
"""With fewer tokens in any aux channel, equal wirings are not enough for ``aligned``."""

EXTRA_REQUESTS = 64
"""Unused requests of a live capture whose served channels are still compared with their own bank."""


def left_out(files: int, limit: int, where: str) -> list[Finding]:
    """Files beyond the limit."""
    if files <= limit:
        return []
    message = f"{limit} of {files} samples were read, the other {files - limit} were not"
    return [finding("samples-left-out", where, message, f"--max-samples {limit}")]


def few_findings(tokens: int, sequences: int) -> list[Finding]:
    """Too little to be sure: fewer than two sequences, or only some tokens."""
    if sequences >= FEW_SEQUENCES and tokens >= FEW_TOKENS:
        return []
    seen = f"{tokens} token{'s'[: tokens != 1]} of {sequences} sequence{'s'[: sequences != 1]}"
    message = f"only {seen} {'was' if tokens == 1 else 'were'} compared"
    return [finding("few-sequences", "dump", message, f"at least {FEW_SEQUENCES} sequences, {FEW_TOKENS} tokens")]


def forbid_few(judgement: Judgement, records: Sequence[ChannelRecord]) -> Judgement:
    """``aligned`` becomes ``undecided`` when a channel of the wiring was seen in fewer than ``LEAST_TOKENS`` tokens."""
    least = min((record.tokens for record in records if record.role == "aux"), default=0)
    if judgement.verdict != "aligned" or least >= LEAST_TOKENS:
        return judgement
    kept = tuple(note for note in judgement.findings if note.code != "wiring-right")
    return replace(judgement, verdict="undecided", findings=kept)


def unused_findings(pairs: Sequence[Pair], bank: Bank, served: Wiring | None, yardsticks: Yardsticks) -> list[Finding]:
    """Requests that no sample used, and those of them that were served something else than the others.

    Args:
        pairs: What was compared.
        bank: The capture.
        served: States that the compared requests were served.
        yardsticks: Gap of each state.
    """
    used = {pair.request.file for pair in pairs}
    unused = [entry for entry in bank.requests if entry.file not in used]
    if not unused:
        return []
    known = {pair.request.token_ids_sha256 for pair in pairs}
    copies = sum(entry.token_ids_sha256 in known for entry in unused)
    again = f"; {copies} with the tokens of another request" if copies else ""
    message = f"{len(unused)} of {len(bank.requests)} requests of the capture were used by no sample{again}"
    if not bank.manifest.served:
        return [finding("requests-unused", unused[0].file, message, "no sample has their tokens")]
    checked = unused[:EXTRA_REQUESTS]
    proof = f"served states of {len(checked)} of them were compared with their own bank"
    found = [finding("requests-unused", unused[0].file, message, proof, severity="warning")]
    for entry in checked:
        found += _served_otherwise(bank.read(entry), entry.file, bank, served or (), yardsticks)
    return found


def _served_otherwise(
    request: BankRequest, name: str, bank: Bank, served: Wiring, yardsticks: Yardsticks
) -> list[Finding]:
    """Slots of a request whose rows are not the state that the other requests were served."""
    states = bank.manifest.states
    values = [channel.values for channel in request.served]
    tables = distance_tables(values, (request.state(state) for state in states))
    found = []
    for slot, (state, table) in enumerate(zip(served, tables, strict=False)):
        rows = table[table.isfinite().all(dim=1)]  # [T', S]
        if state is None or not len(rows):
            continue
        away = 1.0 - rows_away([rows], states.index(state), yardsticks.gap(state)).share
        if away > DISAGREE_SHARE:
            nearest: State = states[int(rows.median(dim=0).values.argmin())]
            message = f"served.{slot} holds {show_state(state)} in the requests that were compared, but not in {name}"
            evidence = f"{away:.0%} of its {len(rows)} rows are elsewhere; {show_state(nearest)} is nearest"
            found.append(finding("rows-disagree", f"{name}, served.{slot}", message, evidence))
    return found
