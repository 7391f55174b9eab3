"""Samples of one set that hold different states: made by different rules, and never to be judged as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hsforensics.matching.identify import FARTHEST
from hsforensics.results import SampleGroup
from hsforensics.states import State, Wiring

if TYPE_CHECKING:
    from torch import Tensor

NAMES = 5
_CLEAR = 0.6


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


def group_samples(found: Iterable[tuple[str, Wiring]]) -> tuple[SampleGroup, ...]:
    """Samples (name, states of its channels) by what they hold, largest group first.

    A sample with unknown channels joins the first group that it does not contradict.
    """
    items = list(found)
    groups: dict[Wiring, list[str]] = {}
    for name, wiring in sorted(items, key=lambda item: sum(state is None for state in item[1])):
        home = next((known for known in groups if _agree(known, wiring)), wiring)
        groups.setdefault(home, []).append(name)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return tuple(SampleGroup(wiring, len(names), tuple(sorted(names)[:NAMES])) for wiring, names in ordered)


def _agree(known: Wiring, other: Wiring) -> bool:
    return all(ours == theirs or None in (ours, theirs) for ours, theirs in zip(known, other, strict=True))
