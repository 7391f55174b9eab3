"""Samples of one set that hold different things: made by different rules, and never to be judged as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hsforensics.matching.hypotheses.case import Explanation
from hsforensics.matching.identify import FARTHEST
from hsforensics.results import SampleGroup
from hsforensics.states import State, show_state

if TYPE_CHECKING:
    from torch import Tensor

NAMES = 5
_CLEAR = 0.6

SAME_SCALE = 0.1
"""Factors of two samples within this share of the larger one are one factor: a sample measures it with some error."""


@dataclass(frozen=True)
class Held:
    """What a channel holds in one sample, by that sample's rows alone.

    Attributes:
        what: State or transform, for comparing; ``None`` when the sample leaves it open.
        state: The state, when it holds one plainly.
        words: For people.
        scale: Constant factor of a transform.
        excluded: States that an open sample certainly does not hold.
        kinds: Finding codes of a transform.
        sure: Whether a state is a match; one that only stands out may be a transform, but no other state.
    """

    what: tuple[object, ...] | None
    state: State | None = None
    words: str = "?"
    scale: float = 1.0
    excluded: tuple[State, ...] = ()
    kinds: tuple[str, ...] = ()
    sure: bool = True

    @property
    def open(self) -> bool:
        """Whether the sample leaves open what it is, or whether it is exactly that."""
        return self.what is None or not self.sure

    def contradicts(self, other: Held) -> bool:
        """Whether the two certainly hold different things."""
        if self.what is None or other.what is None:
            return self._rules_out(other) or other._rules_out(self)
        if not (self.sure and other.sure):
            return None not in (self.state, other.state) and self.state != other.state
        far = abs(self.scale - other.scale) > SAME_SCALE * max(abs(self.scale), abs(other.scale))
        return self.what != other.what or far

    def _rules_out(self, other: Held) -> bool:
        return other.state is not None and other.state in self.excluded


Channels: TypeAlias = tuple[Held, ...]
"""What all channels of one sample hold."""

OPEN = Held(None)
NOTHING = Held(("none",), words="no state")


def plain(state: State, *, sure: bool = True) -> Held:
    """A state as it is."""
    return Held((state,), state, show_state(state), sure=sure)


def multiple(state: State, factor: float) -> Held:
    """A state times a factor."""
    return Held((state, "scaled"), None, f"{show_state(state)} times {factor:.4g}", factor, kinds=("scaled",))


def transformed(found: Explanation) -> Held:
    """A transform of a state."""
    what = (found.kinds, found.state, found.lag)
    return Held(what, words=found.words, scale=found.scale, kinds=found.kinds)


def state_in_sample(table: Tensor, states: Sequence[State]) -> State | None:
    """The state that a channel clearly holds in one sample ([T, S] distances), or ``None``."""
    rows = table[table.isfinite().all(dim=1)]
    if not len(rows):
        return None
    medians = rows.median(dim=0).values
    near = medians.topk(2, largest=False)
    best, distance, second = int(near.indices[0]), float(near.values[0]), float(near.values[1])
    votes = float((rows.argmin(dim=1) == best).float().mean())
    clear = votes >= _CLEAR and distance <= min(FARTHEST / 2, _CLEAR * second)
    return states[best] if clear else None


def cluster(found: Iterable[tuple[str, Channels]]) -> list[tuple[Channels, list[str]]]:
    """Samples (name, what its channels hold) by what they hold, largest group first, names sorted.

    A sample with open channels joins the first group that it does not contradict.
    """
    groups: dict[Channels, list[str]] = {}
    for name, held in sorted(found, key=lambda item: sum(channel.open for channel in item[1])):
        home = next((known for known in groups if not _contradict(known, held)), held)
        groups.setdefault(home, []).append(name)
    return sorted(((held, sorted(names)) for held, names in groups.items()), key=lambda item: -len(item[1]))


def group_samples(found: Iterable[tuple[str, Channels]]) -> tuple[SampleGroup, ...]:
    """``cluster``, as results show it."""
    return tuple(
        SampleGroup(
            tuple(channel.state for channel in held),
            len(names),
            tuple(names[:NAMES]),
            tuple(channel.words for channel in held),
        )
        for held, names in cluster(found)
    )


def some(names: Sequence[str]) -> str:
    """Names for people, not too many."""
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return ", ".join(names[:NAMES]) + more


def _contradict(known: Channels, other: Channels) -> bool:
    return any(ours.contradicts(theirs) for ours, theirs in zip(known, other, strict=True))
