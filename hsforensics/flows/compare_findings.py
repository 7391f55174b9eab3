"""Findings about single channels: refuted labels, a target that is none, identities that stay open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hsforensics.findings import finding
from hsforensics.flows.label_pattern import label_pattern
from hsforensics.flows.pairing import Pair
from hsforensics.matching.align import ALIGNMENT_WORDS
from hsforensics.matching.drift import drifting
from hsforensics.matching.identify import MATCH_SHARE_OF_GAP, Match
from hsforensics.matching.records import ChannelFacts
from hsforensics.states import POSTNORM, Finding, Severity, State, show_state, show_wiring

_NOT_NAMED = "Believe the values: it is not what its label says. A bank, or a whole one, names the state that it is."
_ORDER = {"error": 0, "warning": 1, "info": 2}


def sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Most severe first, otherwise in the order found; equal findings once."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda item: _ORDER[item.severity]))


def channel_findings(
    dump: Sequence[ChannelFacts],
    served: Sequence[ChannelFacts],
    *,
    layers: int | None,
    fc_channels: int | None,
    label_severity: Severity,
) -> list[Finding]:
    """Every finding about a single channel of either side.

    Args:
        dump: Facts of the dump's channels.
        served: Facts of the served channels.
        layers: L of the target, to tell whether the distillation target is the last state.
        fc_channels: How many states the drafter's ``fc`` takes, ``None`` when unknown.
        label_severity: Severity of a refuted label: an error while it may mislead, a warning once serving is right.
    """
    found: list[Finding | None] = []
    for item in dump:
        found += [_identity(item), _noise(item), _label(item, label_severity), _target(item, layers)]
    for item in served:
        found += [_identity(item), _noise(item)]
    found += [label_pattern(dump), _count(dump, fc_channels), _no_target(dump), _open_states(dump)]
    return [item for item in found if item is not None]


def side_findings(facts: Sequence[ChannelFacts]) -> list[Finding]:
    """Findings about one side's aux channels together: a state held twice, an error that grows with depth."""
    aux = [item for item in facts if item.role == "aux"]
    return [*_repeated(aux), *_drift(aux)]


def _repeated(aux: Sequence[ChannelFacts]) -> list[Finding]:
    known = [item.match.known for item in aux]
    twice = [state for state in dict.fromkeys(known) if state is not None and known.count(state) > 1]
    return [
        finding(
            "state-repeated",
            ", ".join(item.label for item in aux if item.match.known == state),
            f"{known.count(state)} of the {len(aux)} channels on the {aux[0].side} side hold {show_state(state)}",
            f"wiring {show_wiring(tuple(known))}",
        )
        for state in twice
    ]


def _drift(aux: Sequence[ChannelFacts]) -> list[Finding]:
    found = drifting([item.match for item in aux])
    if not found:
        return []
    shown = ", ".join(f"{show_state(item.state)}: {item.distance:.3g}" for item in found)
    message = f"the {aux[0].side} side holds the right states in order, with an error that grows with depth"
    return [finding("numeric-drift", aux[0].side, message, shown)]


def alignment_findings(pairs: Sequence[Pair]) -> list[Finding]:
    """How rows were aligned, one finding for each way but the plain one."""
    hows = Counter(pair.alignment.how for pair in pairs)
    return [
        finding(
            "alignment-used",
            next(pair.sample.name for pair in pairs if pair.alignment.how == how),
            f"{count} of {len(pairs)} samples were aligned otherwise: {ALIGNMENT_WORDS[how]}",
            f"alignment {how}",
            severity="warning" if how == "leading-token" else None,
        )
        for how, count in hows.items()
        if how != "same"
    ]


def _label(item: ChannelFacts, severity: Severity) -> Finding | None:
    """A claim that the values refute, whether or not they name another state."""
    known, claim = item.match.known, item.claim
    if claim is None or known == claim or (known is None and claim not in item.match.excluded):
        return None
    holds = f"holds {show_state(known)}" if known is not None else "does not hold it"
    message = f"{item.label} is labelled {show_state(claim)}, but {holds}"
    remedy = None if known is not None else _NOT_NAMED
    return finding("channel-mislabelled", item.label, message, _evidence(item.match), severity=severity, remedy=remedy)


def _identity(item: ChannelFacts) -> Finding | None:
    match, name = item.match, item.label
    if match.identity == "unreadable":
        return finding("channel-unreadable", name, f"{name} cannot be judged: {match.note}", match.note)
    if item.explanation is not None:
        return None  # its own finding says what it is
    if match.identity == "none":
        nearest = f"{name} is close to no state; {show_state(match.state)} is nearest"
        return finding("channel-unidentified", name, nearest, _evidence(match))
    if match.capped:
        nearest = f"{name}: {show_state(match.state)} is nearest, but the bank lacks states that may be nearer"
        return finding("channel-ambiguous", name, nearest, _evidence(match))
    if match.identity == "ambiguous" and match.state is not None:
        either = f"{name} may be {show_state(match.state)} or {show_state(match.runner_up_state)}"
        return finding("channel-ambiguous", name, either, _evidence(match))
    return None


def _noise(item: ChannelFacts) -> Finding | None:
    """Repeated captures that differ as much as neighbouring states do."""
    match = item.match
    if match.floor is None or match.gap is None or match.floor < MATCH_SHARE_OF_GAP * match.gap:
        return None
    message = f"{item.label}: repeated captures differ by {match.floor:.3g}, neighbouring states by {match.gap:.3g}"
    return finding("noise-floor", item.label, message, _evidence(match))


def _target(item: ChannelFacts, layers: int | None) -> Finding | None:
    known = item.match.known
    if item.role != "target" or known is None:
        return None
    if known == POSTNORM:
        return finding("target-postnorm", item.label, f"{item.label} holds postnorm", _evidence(item.match))
    if known == layers:
        return finding("target-prenorm", item.label, f"{item.label} holds state L = {layers}", _evidence(item.match))
    message = f"{item.label} is taken for the distillation target, but holds {show_state(known)}, not the last state"
    remedy = "check the trainer's slicing: its last item becomes the target; if all channels are aux, give --draft"
    return finding("target-not-final", item.label, message, _evidence(item.match), remedy=remedy)


def inferred_roles(labels: Sequence[str], last: State | None, slots: int) -> Iterator[Finding]:
    """That all channels were taken for aux, and why; without served states the other reading is an error to rule out.

    Args:
        labels: Of all channels of the dump.
        last: State of the last one, if known.
        slots: How many states were served; 0 when not measured.
    """
    why = "as many states were served" if slots else f"the last one holds {show_state(last)}, not the last state"
    message = f"all {len(labels)} channels are taken for aux: {why}"
    yield finding("roles-inferred", "dump", message, f"{slots} served slots" if slots else "values of the last channel")
    if not slots:
        message = f"{labels[-1]}, the distillation target by convention, holds {show_state(last)}, not the last state"
        remedy = "check the trainer's slicing: its last item becomes the target; if all channels are aux, give --draft"
        yield finding(
            "target-not-final", labels[-1], message, "no drafter was given to say how many are aux", remedy=remedy
        )


def _count(dump: Sequence[ChannelFacts], fc_channels: int | None) -> Finding | None:
    if fc_channels is None or fc_channels <= len(dump) <= fc_channels + 1:
        return None
    message = f"the drafter's fc joins {fc_channels} states, the dump holds {len(dump)} channels"
    evidence = "a dump holds the aux states and at most one distillation target"
    return finding("channel-count", "fc.weight", message, evidence)


def _no_target(dump: Sequence[ChannelFacts]) -> Finding | None:
    if any(item.role == "target" for item in dump):
        return None
    return finding("target-absent", "dump", f"all {len(dump)} channels are aux states", "no channel is left over")


def _open_states(dump: Sequence[ChannelFacts]) -> Finding | None:
    """Without a bank, most channels stay open; one finding for all of them."""
    names = [
        item.label
        for item in dump
        if item.match.identity == "ambiguous" and item.match.state is None and item.explanation is None
    ]
    if not names:
        return None
    message = f"the target's files cannot tell which state {', '.join(names)} hold, or whether they hold one at all"
    return finding("bank-needed", "dump", message, "no bank was given")


def _evidence(match: Match) -> str:
    """The numbers behind a match, in one line."""
    if match.distance is None or match.runner_up is None:
        return match.note
    votes = "" if match.votes is None else f", {match.votes:.1%} of {match.tokens} tokens vote for it"
    runner_up = f"runner-up {show_state(match.runner_up_state)} at {match.runner_up:.4g}"
    return f"distance {match.distance:.4g}, {runner_up}{votes}"
