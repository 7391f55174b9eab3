"""What is wrong with a channel that fits no state, or not in every row: hypotheses, as findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hsforensics.findings import finding
from hsforensics.flows.bank import Bank
from hsforensics.flows.bank_check import missing_states
from hsforensics.flows.by_sample import hold_clearly, hold_each, with_samples
from hsforensics.flows.channel_log import Evidence
from hsforensics.flows.evidence import Yardsticks, pair_channels, rivals_of
from hsforensics.flows.health_findings import NAMED_SAMPLES, show_spans
from hsforensics.flows.pairing import Pair
from hsforensics.matching.agreement import DISAGREE_SHARE, Partly, describe_rows, held_in_part, rows_away, strays
from hsforensics.matching.distance import scaled_distance
from hsforensics.matching.floats import computable
from hsforensics.matching.groups import some, state_in_sample
from hsforensics.matching.health import runs_of
from hsforensics.matching.hypotheses.case import Case, Explanation
from hsforensics.matching.hypotheses.origin import FOREIGN_SHARE, origins
from hsforensics.matching.hypotheses.search import SCALE_NOISE
from hsforensics.matching.hypotheses.table import explain, guess
from hsforensics.matching.identify import Match, best_state, identify, leaning
from hsforensics.matching.lean import LEAN, LEAN_SHARE, Lean, neighbours, strongest_lean
from hsforensics.states import Finding, State, show_state

if TYPE_CHECKING:
    from torch import Tensor

CASE_PAIRS = 6
"""Sequences that hypotheses are tried on: several, so that rows of one can be found in another."""

SEARCHES = 6
"""Samples of a channel, each judged alone, that are searched for a transform in vain; for others only those found for
other samples are tried."""

SCALED_SHARE = 0.5
"""A constant factor explains a match that is this much nearer, as a share of its distance, when divided by it."""

CASE_ROWS = 384
CASE_ELEMENTS = 1 << 27
"""Rows, and elements of the bank for these rows, at most."""


@dataclass(frozen=True)
class Explainer:
    """Explains channels of one side; the rows of the bank are read once for all of them."""

    pairs: Sequence[Pair]
    bank: Bank
    yardsticks: Yardsticks
    served: bool

    def explain_all(self, items: Sequence[Evidence]) -> list[Evidence]:
        """The same evidence, with explanations and their findings where something is to be explained.

        An incomplete bank explains nothing: what looks like a transform may be a state that is missing.
        """
        if missing_states(self.bank.manifest):
            return [replace(item, held=hold_clearly(item, self.bank.manifest.states)) for item in items]
        return [self._by_sample(item, self._explain(item)) for item in items]

    def _by_sample(self, item: Evidence, whole: Evidence) -> Evidence:
        def explain_one(one: Evidence, before: Sequence[Evidence]) -> Evidence:
            """What explained all samples, or one before, is tried first; a full search is made for a few samples."""
            known = [other.explanation for other in (whole, *before) if other.explanation is not None]
            in_vain = [other for other in before if other.match.known is None and other.explanation is None]
            return self._explain(one, tuple(dict.fromkeys(known)), thorough=len(in_vain) < SEARCHES)

        held = hold_each(item, self._alone, explain_one)
        names = {number: self._name(number) for number in held}
        return with_samples(item, whole, held, names, served=self.served)

    def _alone(self, table: Tensor) -> tuple[Match, State | None]:
        """The match of one sample ([T, S] distances), and the state that stands out in it, if one does."""
        states = self.bank.manifest.states
        best = best_state([table], states)
        if best is None:
            return Match("unreadable", note="no finite row to compare"), None
        rivals = rivals_of(best, states)
        rows = table[:, [states.index(state) for state in rivals]]
        return identify([rows], rivals, self.yardsticks.gap(best), seed=0), state_in_sample(rows, rivals)

    def _name(self, number: int) -> str:
        return self.pairs[number].sample.name

    def _explain(self, item: Evidence, guesses: Sequence[Explanation] = (), *, thorough: bool = True) -> Evidence:
        match = item.match
        if match.state is None or not item.tables:
            return item
        again = guess(self._case(item), guesses) if guesses and match.identity != "exact" else None
        if again is not None:
            return self._noted(item, again)
        if match.identity in ("exact", "match"):
            lean = self._lean(item)
            if lean is None:
                return self._scaled(self._rows_away(item))
            item = replace(item, match=leaning(match, lean))
        found = explain(self._case(item)) if thorough else None
        if found is not None:
            return self._noted(item, found)
        partly = held_in_part([table for _, table in _finite(item)]) if match.identity == "none" else None
        return item if partly is None else self._partly(item, partly)

    def _noted(self, item: Evidence, found: Explanation) -> Evidence:
        evidence = (
            f"distance {found.distance:.3g} instead of {found.plain:.3g} to the nearest state: "
            f"explains {found.share:.0%} of the misfit"
        )
        if found.sequences:
            evidence += f"; rows of {some([self._name(number) for number in found.sequences])}"
        message = f"{item.label} holds {found.words}"
        share = min(1.0, max(0.0, found.share))
        notes = [
            finding(kind, item.label, message, evidence, severity="error", share=share, remedy=found.remedy)
            for kind in found.kinds
        ]
        return replace(item, explanation=found, findings=(*item.findings, *notes))

    def _rows_away(self, item: Evidence) -> Evidence:
        """A channel that is a state, but not in every row."""
        tables = [table for _, table in _finite(item)]
        best = self.bank.manifest.states.index(item.match.state or 0)
        partly = rows_away(tables, best, item.match.gap or 0.0)
        if 1.0 - partly.share <= DISAGREE_SHARE:
            return replace(item, agreement=partly.share, findings=(*item.findings, *self._strays(item, partly)))
        return self._partly(item, partly)

    def _strays(self, item: Evidence, partly: Partly) -> Iterator[Finding]:
        """A few rows that are clearly something else: one warning for all of them.

        Behind one token more in front all rows differ a little, and the first ones much: that is told already.
        """
        found: list[tuple[str, Tensor]] = []  # name, [T] bool of its rows
        for (number, table), away in zip(_finite(item), partly.away, strict=True):
            bad = strays(table, partly, away)
            if bool(bad.any()) and self.pairs[number].alignment.how != "leading-token":
                found.append((self._name(number), self._marked(number, item, bad)))
        if not found:
            return
        shown = "; ".join(f"{name} {show_spans(runs_of(rows))}" for name, rows in found[:NAMED_SAMPLES])
        shown += f" and {len(found) - NAMED_SAMPLES} more" if len(found) > NAMED_SAMPLES else ""
        count = sum(int(rows.sum()) for _, rows in found)
        message = f"{item.label} holds {show_state(item.match.state)} except in {count} row{'s'[: count != 1]}"
        where = f"{some([name for name, _ in found])}, {item.label}"
        evidence = f"{count} of {item.match.tokens} rows compared: {shown}"
        yield finding("rows-disagree", where, message, evidence, severity="warning", share=count / item.match.tokens)

    def _marked(self, number: int, item: Evidence, bad: Tensor) -> Tensor:
        """All rows of a sample, or of its request; marked are those that ``bad`` picks from finite ones."""
        import torch

        pair, table = self.pairs[number], dict(item.tables)[number]
        tokens = self.bank.read(pair.request).token_ids if self.served else pair.sample.token_ids
        rows = torch.arange(len(tokens))
        rows = (pair.theirs(rows) if self.served else pair.ours(rows))[table.isfinite().all(dim=1)]
        marked = torch.zeros(len(tokens), dtype=torch.bool)
        marked[rows[bad]] = True
        return marked

    def _partly(self, item: Evidence, partly: Partly) -> Evidence:
        state = self.bank.manifest.states[partly.state]
        tokens = [self._tokens(number)[mask] for number, mask in _finite_rows(item)]
        which = describe_rows(partly.away, tokens)
        message = f"{item.label} holds {show_state(state)} in {partly.share:.0%} of its rows only, not in {which}"
        counts = {number: int(mask.sum()) for (number, _), mask in zip(item.tables, partly.away, strict=True)}
        worst = sorted(counts, key=lambda number: -counts[number])
        shown = some([f"{self._name(number)} {counts[number]}" for number in worst if counts[number]])
        evidence = f"{item.match.tokens} rows compared; rows away: {shown}"
        notes = [finding("rows-disagree", item.label, message, evidence, share=1.0 - partly.share)]
        tables = dict(item.tables)
        case = self._case(replace(item, tables=tuple((number, tables[number]) for number in worst)))
        source = origins(case, state) if len(case.values) else None
        if source is not None and source.elsewhere >= FOREIGN_SHARE * (1.0 - partly.share):
            held_by = f"nearest rows; in {some([self._name(number) for number in source.sequences])}"
            notes.append(finding("rows-foreign", item.label, f"{item.label} holds {source.words}", held_by))
        return replace(item, agreement=partly.share, findings=(*item.findings, *notes))

    def _lean(self, item: Evidence) -> Lean | None:
        """Where a match lies on its way to another state, if it lies there rather than around its own."""
        state, distance = item.match.state, item.match.distance or 0.0
        if state is None or item.match.identity == "exact" or self._near(item, state) > 1 - LEAN_SHARE:
            return None
        values, bank = self._spread(item, (state, *neighbours(state, self.bank.manifest.states)))
        scaled, _ = scaled_distance(values, bank[state])
        return None if scaled < SCALED_SHARE * distance else strongest_lean(values, state, bank)

    def _near(self, item: Evidence, state: State) -> float:
        """Share of rows so near to their state that they cannot be on their way to another one."""
        import torch

        column = self.bank.manifest.states.index(state)
        rows = torch.cat([table[:, column] for _, table in _finite(item)])
        return float((rows < LEAN * (item.match.gap or 0.0)).float().mean())

    def _spread(self, item: Evidence, wanted: Sequence[State]) -> tuple[Tensor, dict[State, Tensor]]:
        """Rows of the channel, evenly from all sequences and all of their length, and states of the same rows."""
        import torch

        each = max(8, CASE_ROWS // len(item.tables))
        picked = {n: torch.arange(self.pairs[n].rows)[:: max(1, self.pairs[n].rows // each)] for n, _ in item.tables}
        values = torch.cat([self._rows(n, item)[rows] for n, rows in picked.items()])
        return values, {s: torch.cat([self._bank_rows(n, s)[rows] for n, rows in picked.items()]) for s in wanted}

    def _scaled(self, item: Evidence) -> Evidence:
        """A match whose whole distance is a constant factor."""
        if item.match.identity == "exact" or item.match.state is None:
            return item
        number = item.tables[0][0]
        state = self._bank_rows(number, item.match.state)
        distance, scale = scaled_distance(self._rows(number, item), state)
        if abs(scale - 1.0) <= SCALE_NOISE or distance > SCALED_SHARE * (item.match.distance or 0.0):
            return item
        message = f"{item.label} holds {show_state(item.match.state)} times {scale:.4g}"
        evidence = f"distance {distance:.3g} after dividing by it, {item.match.distance:.3g} before"
        note = finding("scaled", item.label, message, evidence)
        return replace(item, factor=scale, findings=(*item.findings, note))

    def _tokens(self, number: int) -> Tensor:
        pair = self.pairs[number]
        return pair.ours(pair.sample.token_ids)

    def _rows(self, number: int, item: Evidence) -> Tensor:
        pair = self.pairs[number]
        channels = pair_channels(pair, self.bank, served=self.served)
        values = computable(next(channel.values for channel in channels if channel.index == item.index))
        return pair.theirs(values) if self.served else pair.ours(values)

    def _bank_rows(self, number: int, state: State) -> Tensor:
        pair = self.pairs[number]
        return pair.theirs(self.bank.read(pair.request).state(state))

    def _case(self, item: Evidence) -> Case:
        """The channel and the bank for some rows of a few sequences."""
        import torch

        numbers = [number for number, _ in item.tables[:CASE_PAIRS]]
        states = self.bank.manifest.states
        budget = CASE_ELEMENTS // (len(states) * max(1, self.bank.manifest.hidden_size))
        share = max(8, min(CASE_ROWS, budget) // len(numbers))
        counts = [min(share, self.pairs[number].rows) for number in numbers]
        cuts = list(zip(numbers, counts, strict=True))
        values = torch.cat([self._rows(n, item)[:c] for n, c in cuts]).float()
        usable = values.isfinite().all(dim=1) & (values != 0).any(dim=1)
        gaps = (~usable).cumsum(dim=0)  # a lag never crosses a row that is left out
        runs = torch.cat(list(self._runs(numbers, counts))) + gaps * 1000
        return Case(
            values=values[usable],
            bank={state: torch.cat([self._bank_rows(n, state)[:c] for n, c in cuts])[usable] for state in states},
            tokens=torch.cat([self._tokens(n)[:c] for n, c in cuts])[usable],
            sequences=torch.tensor(numbers).repeat_interleave(torch.tensor(counts))[usable],
            runs=runs[usable],
        )

    def _runs(self, numbers: Sequence[int], counts: Sequence[int]) -> Iterator[Tensor]:
        """Contiguous runs: each span of each alignment is one."""
        import torch

        base = 0
        for number, count in zip(numbers, counts, strict=True):
            spans = self.pairs[number].alignment.spans
            lengths = torch.tensor([length for _, _, length in spans])
            yield (base + torch.arange(len(spans)).repeat_interleave(lengths))[:count]
            base += len(spans)


def _finite(item: Evidence) -> list[tuple[int, Tensor]]:
    return [(number, table[table.isfinite().all(dim=1)]) for number, table in item.tables]


def _finite_rows(item: Evidence) -> list[tuple[int, Tensor]]:
    return [(number, table.isfinite().all(dim=1)) for number, table in item.tables]


def explained_slots(ours: Sequence[Evidence], theirs: Sequence[Evidence]) -> list[int]:
    """Slots where a transform explains one side and the other side is a known state, or another transform's."""
    return [slot for slot, (a, b) in enumerate(zip(ours, theirs, strict=False)) if _unlike(a, b) or _unlike(b, a)]


def _unlike(one: Evidence, other: Evidence) -> bool:
    if one.explanation is None or one.explanation.mixed or (other.explanation is not None and other.explanation.mixed):
        return False  # what is true of some samples only decides nothing
    if other.explanation is None:
        return other.match.known is not None
    return (one.explanation.kinds, one.explanation.state) != (other.explanation.kinds, other.explanation.state)


def excluded_slots(ours: Sequence[Evidence], theirs: Sequence[Evidence]) -> list[Finding]:
    """Slots where one side is a known state that the other, though ambiguous, certainly is not: one finding for all."""
    found = []
    for slot, pair in enumerate(zip(ours, theirs, strict=False)):
        for one, other in (pair, pair[::-1]):
            if one.match.known is not None and one.match.known in other.match.excluded:
                found.append((slot, f"slot {slot}: {one.label} is {show_state(one.match.known)}, {other.label} is not"))
    if not found:
        return []
    slots = ", ".join(str(slot) for slot, _ in found)
    message = f"slots {slots} are certainly not served what they were trained on, although one side stays ambiguous"
    remedy = "settle the trained wiring with a bank of higher precision, or with hsforensics draft-eval"
    return [finding("offset-mixed", "served", message, "; ".join(words for _, words in found), remedy=remedy)]


def all_findings(items: Sequence[Evidence]) -> list[Finding]:
    """Every finding of every channel."""
    return [note for item in items for note in (*item.findings, *item.short)]
