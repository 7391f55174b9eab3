"""Which samples of a set hold which states: one group is healthy, two were made by different rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from hsforensics.findings import finding
from hsforensics.flows.channel_log import Evidence
from hsforensics.flows.pairing import Pair
from hsforensics.flows.repeats import Repeats
from hsforensics.matching.groups import group_samples, state_in_sample
from hsforensics.results import SampleGroup
from hsforensics.states import Finding, State, show_wiring


def sample_groups(
    pairs: Sequence[Pair], trained: Sequence[Evidence], states: Sequence[State], repeats: Repeats
) -> tuple[SampleGroup, ...]:
    """Group the samples by the states that their channels clearly hold, each judged alone; copies as the original."""
    held: dict[int, dict[int, State | None]] = defaultdict(dict)
    for place, item in enumerate(trained):
        for number, table in item.tables:
            held[number][place] = state_in_sample(table, states)
    found = [
        (pair.sample.name, tuple(held[original].get(place) for place in range(len(trained))))
        for pair, original in zip(pairs, repeats.original, strict=True)
    ]
    return group_samples(item for item in found if any(state is not None for state in item[1]))


def group_findings(groups: Sequence[SampleGroup]) -> list[Finding]:
    """One finding when there is more than one group."""
    if len(groups) < 2:
        return []
    shown = "; ".join(
        f"{group.samples} samples hold {show_wiring(group.states)} ({', '.join(group.names)})" for group in groups
    )
    where = ", ".join(groups[-1].names)
    return [finding("set-mixed", where, f"the set was made by {len(groups)} rules", shown)]
