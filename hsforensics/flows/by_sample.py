"""What a channel holds in each sample, judged by that sample alone: a median over the set hides a few odd files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from hsforensics.findings import finding
from hsforensics.flows.channel_log import Evidence
from hsforensics.flows.embedding_lag import lagged_embedding
from hsforensics.matching.bootstrap import ratio_interval
from hsforensics.matching.cheap import CheapRows, alone_cheaply
from hsforensics.matching.groups import (
    NOTHING,
    OPEN,
    Channels,
    Held,
    cluster,
    multiple,
    plain,
    some,
    state_in_sample,
    transformed,
)
from hsforensics.matching.hypotheses.case import MIXED, Explanation
from hsforensics.matching.identify import MAJORITY, Match
from hsforensics.models.target import Target
from hsforensics.states import POSTNORM, Finding, Sample, State, show_state

if TYPE_CHECKING:
    from torch import Tensor

LEAST_ROWS = 32
"""Fewer rows of a sample that is no state leave open what it is: several transforms need as many to be recognised."""

STANDS_APART = 2.0
"""A sample that is no state is this many times farther than any sample that is one; below, noise may do it."""

Group: TypeAlias = tuple[Channels, list[str]]
_NOT_THESE: dict[tuple[State, ...], str] = {
    (0, POSTNORM): "neither the embedding nor postnorm",
    (0,): "not the embedding",
    (POSTNORM,): "not postnorm",
}
_KEPT = ("rows-disagree", "rows-foreign")


def hold_each(
    item: Evidence,
    alone: Callable[[Tensor], tuple[Match, State | None]],
    explain: Callable[[Evidence, Sequence[Evidence]], Evidence],
) -> dict[int, Held]:
    """Number of the pair -> what the channel holds in it, by the same rules as for all samples together.

    Args:
        item: Evidence of the channel, before anything was explained.
        alone: From the distances of one sample: its match, and the state that stands out in it, if one does.
        explain: Explains evidence, here of one sample, given what was found for those before it.
    """
    found: dict[int, tuple[Evidence, State | None]] = {}
    for number, table in item.tables:
        match, near = alone(table)
        one = replace(item, match=match, tables=((number, table),), findings=())
        found[number] = explain(one, [before for before, _ in found.values()]), near
    matches = (one.match for one, _ in found.values())
    farthest = max((match.distance or 0.0 for match in matches if match.known is not None), default=0.0)
    return {number: _held(one, near, STANDS_APART * farthest) for number, (one, near) in found.items()}


def hold_clearly(item: Evidence, states: Sequence[State]) -> dict[int, Held]:
    """The same where the bank lacks states: only what stands out among those that it has, nothing explained."""
    found = {number: state_in_sample(table, states) for number, table in item.tables}
    return {number: OPEN if state is None else plain(state, sure=False) for number, state in found.items()}


def _held(one: Evidence, near: State | None, apart: float) -> Held:
    """What the evidence of a single sample says.

    Args:
        one: The evidence.
        near: The state that stands out, if one does.
        apart: How far one that is no state must be.
    """
    match = one.match
    if one.explanation is not None:
        return transformed(one.explanation)
    if match.known is not None:
        return plain(match.known) if one.factor is None else multiple(match.known, one.factor)
    if near is not None:
        return plain(near, sure=False)
    partly = any(note.code in _KEPT for note in one.findings)
    if match.identity == "none" and not partly and match.tokens >= LEAST_ROWS and (match.distance or 0.0) >= apart:
        return NOTHING
    return Held(None, excluded=match.excluded)


def with_samples(
    bare: Evidence, whole: Evidence, held: Mapping[int, Held], names: Mapping[int, str], *, served: bool
) -> Evidence:
    """The channel's evidence with what each sample holds; where samples differ, no one explanation is for all of them.

    Args:
        bare: Before anything was explained.
        whole: As all samples together explain it.
        held: Of ``hold_each``.
        names: Number of a pair -> name of its sample.
        served: Whether it is a served channel: its samples are requests.
    """
    groups = cluster((names[number], (one,)) for number, one in held.items())
    whole = replace(whole, held=held)
    if len(groups) < 2:
        return whole
    notes = tuple(_notes(whole.label, groups, "request" if served else "sample", served=served))
    if whole.match.known is not None:
        return replace(whole, findings=(*whole.findings, *notes))
    distance = whole.match.distance or 0.0
    mixed = Explanation((MIXED,), None, _words(groups, "request" if served else "sample"), distance, distance)
    added = tuple(note for note in whole.findings[len(bare.findings) :] if note.code in _KEPT)
    return replace(whole, explanation=mixed, findings=(*bare.findings, *added, *notes))


def files_by_sample(
    bare: Evidence,
    whole: Evidence,
    parts: Mapping[int, CheapRows],
    samples: Sequence[Sample],
    target: Target,
    seed: int,
) -> Evidence:
    """``with_samples`` where only the target's files are known.

    Args:
        bare: Before the embedding of a neighbouring token was looked for.
        whole: After that.
        parts: Number of a sample -> its rows against the target's files.
        samples: All samples.
        target: Holds the embedding.
        seed: Seed of the bootstrap.
    """
    held: dict[int, Held] = {}
    for number, part in parts.items():
        alone = replace(bare, match=alone_cheaply(part), findings=())
        held[number] = _held_cheaply(lagged_embedding(alone, samples[number : number + 1], target))
    known = whole.match.known
    if known is not None and not _majority(plain(known), held, parts, seed):
        note = f"{show_state(known)} in some samples only; {whole.match.note}"
        whole = replace(whole, match=Match("ambiguous", tokens=whole.match.tokens, note=note))
    return with_samples(bare, whole, held, {number: samples[number].name for number in held}, served=False)


def _held_cheaply(one: Evidence) -> Held:
    if one.explanation is not None:
        return transformed(one.explanation)
    if one.match.known is not None:
        return plain(one.match.known)
    return Held(None, words=_NOT_THESE.get(one.match.excluded, "?"), excluded=one.match.excluded)


def _majority(known: Held, held: Mapping[int, Held], parts: Mapping[int, CheapRows], seed: int) -> bool:
    """Whether most rows lie in samples that do not contradict it, also at the low end of the interval."""
    rows = {number: len(part.cosine) for number, part in parts.items() if len(part.cosine)}
    agreeing = [count * (not held[number].contradicts(known)) for number, count in rows.items()]
    interval = ratio_interval(agreeing, list(rows.values()), seed)
    return interval is None or interval[0] > MAJORITY


def _notes(label: str, groups: Sequence[Group], what: str, *, served: bool) -> Iterator[Finding]:
    """One finding for each transform that some samples hold.

    For a served channel there is one more: ``set-mixed`` is about files of a dump.
    """
    if served:
        message = f"{label} does not hold the same in all requests: {_words(groups, what)}"
        yield finding("rows-disagree", label, message, _named(groups))
    for (held,), names in groups:
        for kind in held.kinds:
            message = f"in {_count(groups, names, what)}, {label} holds {held.words}"
            yield finding(kind, label, message, f"{what}s {some(names)}", severity="error")


def _words(groups: Sequence[Group], what: str) -> str:
    return "; ".join(f"{held[0].words} in {_count(groups, names, what)}" for held, names in groups)


def _named(groups: Sequence[Group]) -> str:
    return "; ".join(f"{held[0].words}: {some(names)}" for held, names in groups)


def _count(groups: Sequence[Group], names: Sequence[str], what: str) -> str:
    return f"{len(names)} of {sum(len(others) for _, others in groups)} {what}s"
