"""From what is known of single channels to one record for each: roles, and the status within a pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hsforensics.matching.hypotheses.case import Explanation
from hsforensics.matching.identify import Match
from hsforensics.results import ChannelRecord
from hsforensics.states import Role, Side, State, Status, Wiring


@dataclass(frozen=True)
class ChannelFacts:
    """What is known of one channel before it is paired; fields as in ``ChannelRecord``."""

    side: Side
    index: int
    label: str
    claim: State | None
    role: Role
    match: Match
    norm: float | None = None
    row: int | None = None
    values: tuple[float | None, ...] = ()
    reference: tuple[float | None, ...] = ()
    claimed_reference: tuple[float | None, ...] = ()
    explanation: Explanation | None = None
    agreement: float | None = None


def roles_for(labels: Sequence[str], fc_channels: int | None) -> tuple[Role, ...]:
    """Which channels feed ``fc``, and which is the distillation target.

    The width of ``fc`` settles it when the drafter is at hand: its first n channels are aux, and one more, the last,
    is the target. Without it the trainers' convention is assumed: the last channel is the target (speculators 0.3 to
    0.7 slice ``[:-1]``), unless its label says that it is one more aux state.

    Args:
        labels: Labels of the channels, in file order.
        fc_channels: n = width of ``fc`` / hidden size, or ``None`` when no drafter is given.
    """
    count = len(labels)
    if fc_channels is None:
        all_aux = count == 1 or labels[-1].startswith("aux")
        fc_channels = count if all_aux else count - 1
    roles: list[Role] = ["aux" if index < fc_channels else "unused" for index in range(count)]
    if count > fc_channels:
        roles[-1] = "target"
    return tuple(roles)


def settle_roles(roles: Sequence[Role], last: State | None, slots: int, final: Sequence[State | None]) -> bool:
    """Whether the convention "the last channel is the target" is contradicted, so that all channels are aux.

    It is when the engine feeds as many states as the dump has channels, unless the last channel is known to be the last
    state, which is no usual aux state, and is not served in that slot. It is, too, when nothing was served and the last
    channel is known to be another state: a wiring without it might be written into a config.

    Args:
        roles: By the convention.
        last: State of the last channel, if known.
        slots: How many states the engine fed; 0 when not measured.
        final: The states that a distillation target holds (L, postnorm), less the one served in the last slot.
    """
    if roles[-1] != "target" or (last is not None and last in final):
        return False
    return slots == len(roles) if slots else last is not None


def wiring_of(facts: Sequence[ChannelFacts]) -> Wiring | None:
    """The states of the aux channels, in order; ``None`` when there is no aux channel or none of them is known."""
    wiring = tuple(item.match.known for item in facts if item.role == "aux")
    return wiring if any(state is not None for state in wiring) else None


def pair_up(dump: Sequence[ChannelFacts], served: Sequence[ChannelFacts]) -> tuple[ChannelRecord, ...]:
    """One record for every channel on either side: aux slot i is paired with served slot i, the rest with claims."""
    slots = [item for item in dump if item.role == "aux"]
    partner = {id(ours): theirs for ours, theirs in zip(slots, served, strict=False)}
    partner |= {id(theirs): ours for ours, theirs in zip(slots, served, strict=False)}
    return tuple(_record(item, partner.get(id(item)), bool(served)) for item in (*dump, *served))


def _record(item: ChannelFacts, other: ChannelFacts | None, has_served: bool) -> ChannelRecord:
    match = item.match
    against: Literal["counterpart", "claim", "nothing"] = "nothing"
    if other is not None:
        against, status = "counterpart", _status(match, other.match.known, other.match)
    elif item.claim is not None and not (has_served and item.role == "aux"):
        against, status = "claim", _status(match, item.claim, None)
    else:
        status = "unreadable" if match.identity == "unreadable" else "unmatched"
    return ChannelRecord(
        side=item.side,
        index=item.index,
        label=item.label,
        claim=item.claim,
        role=item.role,
        identity=match.identity,
        state=match.state,
        distance=match.distance,
        runner_up_state=match.runner_up_state,
        runner_up=match.runner_up,
        margin=match.margin,
        votes=match.votes,
        votes_interval=match.votes_interval,
        tokens=match.tokens,
        norm=item.norm,
        row=item.row,
        values=item.values,
        reference=item.reference,
        claimed_reference=item.claimed_reference,
        against=against,
        status=status,
        note=match.note,
        explanation=item.explanation.words if item.explanation else None,
        explained=item.explanation.share if item.explanation and not item.explanation.mixed else None,
        agreement=item.agreement,
        noise_floor=match.floor,
    )


def _status(match: Match, expected: State | None, other: Match | None) -> Status:
    """Status of a channel against the state expected of it (a claim, or its counterpart's known state)."""
    if match.identity == "unreadable" or (other is not None and other.identity == "unreadable"):
        return "unreadable"
    if expected is not None and match.known is not None:
        return "matched" if match.known == expected else "mismatched"
    if expected is not None and expected in match.excluded:
        return "mismatched"
    if match.known is not None and other is not None and match.known in other.excluded:
        return "mismatched"
    return "unmatched" if match.identity == "none" else "ambiguous"
