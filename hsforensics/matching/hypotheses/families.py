"""Families of candidates: plain states, states after a norm, branches without their residual."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hsforensics.matching.hypotheses.case import Candidate, Case, unit_rows
from hsforensics.states import State, show_state


def plain_states(case: Case) -> Iterator[Candidate]:
    """Every state of the bank as it is; of use under a scale or a lag."""
    for state, values in case.bank.items():
        yield Candidate(None, state, show_state(state), values.float)


def normed_states(case: Case) -> Iterator[Candidate]:
    """States after an RMS norm: without gain, or with the final norm's gain (of state L that is postnorm itself)."""
    gain = case.final_gain
    for state in case.stream:
        values = case.bank[state]
        words = f"{show_state(state)} after an RMS norm"
        yield Candidate("norm-applied", state, words, lambda values=values: unit_rows(values))  # type: ignore[misc]
        if gain is not None and state != case.stream[-1]:
            words = f"{show_state(state)} after the final norm"
            yield Candidate("norm-applied", state, words, lambda values=values: unit_rows(values) * gain)  # type: ignore[misc]


def branches(case: Case) -> Iterator[Candidate]:
    """What a layer, or its attention or MLP, adds to the stream.

    Where norms follow the branches (Gemma), what an engine hands on is the norm's output, which still is what is added.
    """
    for before, after, words in branch_ends(case):
        low, high = case.bank[before], case.bank[after]
        yield Candidate("residual-missing", after, words, lambda low=low, high=high: high.float() - low.float())  # type: ignore[misc]


def branch_ends(case: Case) -> Iterator[tuple[State, State, str]]:
    """(state before, state after, name) of every branch that the bank can show."""
    for low, high in pairwise(case.stream):
        if high != low + 1:
            continue
        middle = f"mid:{low}"
        yield low, high, f"what layer {low} adds, without the residual"
        if middle in case.bank:
            yield middle, high, f"the MLP branch of layer {low}, without the residual"
            yield low, middle, f"the attention branch of layer {low}, without the residual"
