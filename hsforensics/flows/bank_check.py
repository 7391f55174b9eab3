"""Whether a bank is fit to judge by: states that it lacks, and states that hold NaN or Inf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hsforensics.capture.manifest import AGAIN, ManifestHeader
from hsforensics.capture.store import Capture
from hsforensics.errors import HsfError
from hsforensics.findings import finding
from hsforensics.flows.bank import Bank
from hsforensics.flows.channel_log import ChannelLog
from hsforensics.flows.memory_bank import MemoryBank
from hsforensics.states import Finding, State, show_state

BROKEN_SHARE = 0.5
"""A state that is not finite in more than this share of the rows is dropped whole; otherwise its bad rows are."""

_NAMES = 6


def missing_states(header: ManifestHeader) -> tuple[int, ...]:
    """Those of the states 0 to L that a bank lacks."""
    return tuple(state for state in range(header.layers + 1) if state not in header.states)


def refuse_tiny(bank: Bank) -> None:
    """A bank needs two states: the distance to the second one is what makes the first believable.

    Raises:
        HsfError: ``nothing-compared``.
    """
    held = bank.manifest.states
    if len(held) < 2:
        names = f"only {show_state(held[0])}" if held else "no state at all"
        message = f"its bank holds {names}; at least two states are needed to tell which one a channel is"
        raise HsfError("nothing-compared", bank.path, message, f"{AGAIN} DUMPS --engine transformers --target MODEL")


def incomplete(bank: Bank) -> list[Finding]:
    """One finding when states are missing, naming them."""
    missing = missing_states(bank.manifest)
    if not missing:
        return []
    message = f"the bank lacks {_listed(missing)} of the states 0 to {bank.manifest.layers}"
    evidence = f"{bank.manifest.layers + 1 - len(missing)} of {bank.manifest.layers + 1} states; only exact ones count"
    return [finding("bank-incomplete", str(bank.path), message, evidence)]


def sound_bank(bank: Bank, logs: Sequence[ChannelLog]) -> tuple[Bank, list[Finding]]:
    """The bank without states that hold mostly NaN or Inf, whose columns leave the logs' tables, too.

    A row whose distance to one state is no number, while that to another is one, has a broken row in the bank.

    Args:
        bank: The capture.
        logs: Of both sides, with one column for each state of the bank; changed in place.

    Raises:
        HsfError: ``nothing-compared``: fewer than two states are left.
    """
    states = bank.manifest.states
    bad, rows = _not_finite(logs, len(states))
    dropped = [place for place, count in enumerate(bad) if count > BROKEN_SHARE * rows]
    holes = [place for place, count in enumerate(bad) if count and place not in dropped]
    found = [
        _broken(bank, [states[place] for place in places], max(bad[place] for place in places), rows, whole)
        for places, whole in ((dropped, True), (holes, False))
        if places
    ]
    if dropped:
        kept = [place for place in range(len(states)) if place not in dropped]
        for log in logs:
            log.tables[:] = [(number, table[:, kept]) for number, table in log.tables]
        bank = _with_states(bank, tuple(states[place] for place in kept))
        if len(kept) < 2:
            raise HsfError("nothing-compared", bank.path, found[0].message, found[0].remedy)
    return bank, found


def _not_finite(logs: Sequence[ChannelLog], states: int) -> tuple[list[int], int]:
    """For each state, rows (of the log that saw most) where it alone is at fault; and the rows that could be judged."""
    import torch

    worst, rows = torch.zeros(states, dtype=torch.long), 0
    for log in logs:
        tables = [table.isfinite() for _, table in log.tables]
        if not tables:
            continue
        finite = torch.cat(tables)  # [N, S]
        usable = finite.any(dim=1)
        worst = torch.maximum(worst, (~finite[usable]).sum(dim=0))
        rows = max(rows, int(usable.sum()))
    return worst.tolist(), rows


def _broken(bank: Bank, states: Sequence[State], count: int, rows: int, whole: bool) -> Finding:
    done = "left out" if whole else "these rows were left out for all states"
    message = f"the capture holds NaN or Inf in {_listed(states)}, in {count} of {rows} rows; {done}"
    return finding("bank-nonfinite", str(bank.path), message, "rows whose distance to other states is a number")


def _listed(states: Sequence[State]) -> str:
    names = ", ".join(str(state) for state in states[:_NAMES])
    more = f" and {len(states) - _NAMES} more" if len(states) > _NAMES else ""
    return f"state{'s'[: len(states) != 1]} {names}{more}"


def _with_states(bank: Bank, states: tuple[State, ...]) -> Bank:
    """The same bank, of which only some states are asked."""
    if isinstance(bank, Capture):
        return replace(bank, manifest=replace(bank.manifest, states=states))
    assert isinstance(bank, MemoryBank)  # noqa: S101 (there is no other)
    return replace(bank, manifest=replace(bank.manifest, states=states))
