"""Which samples of a set hold which states: one group is healthy, two were made by different rules."""

from __future__ import annotations

from collections.abc import Sequence

from hsforensics.findings import finding
from hsforensics.flows.channel_log import Evidence
from hsforensics.flows.repeats import Repeats
from hsforensics.matching.groups import NAMES, OPEN, group_samples
from hsforensics.results import SampleGroup
from hsforensics.states import Finding


def sample_groups(names: Sequence[str], trained: Sequence[Evidence], repeats: Repeats) -> tuple[SampleGroup, ...]:
    """Group the samples by what their channels hold, each judged alone; copies as the original.

    Args:
        names: Of the samples.
        trained: Evidence of the dump's channels.
        repeats: Of the samples.
    """
    found = [
        (name, tuple(item.held.get(original, OPEN) for item in trained))
        for name, original in zip(names, repeats.original, strict=True)
    ]
    return group_samples(item for item in found if any(held.what is not None or held.excluded for held in item[1]))


def group_findings(groups: Sequence[SampleGroup], trained: Sequence[Evidence]) -> list[Finding]:
    """One finding when there is more than one group: the channels that differ, and files of all but the largest group.

    Args:
        groups: Of the samples.
        trained: Evidence of the dump's channels.
    """
    if len(groups) < 2:
        return []
    differing = [place for place in range(len(trained)) if len({group.holds[place] for group in groups}) > 1]
    shown = "; ".join(
        f"{group.samples} of {sum(other.samples for other in groups)} samples ({', '.join(group.names)}): "
        + ", ".join(f"{trained[place].label} holds {group.holds[place]}" for place in differing)
        for group in groups
    )
    where = ", ".join([name for group in groups[1:] for name in group.names][:NAMES])
    return [finding("set-mixed", where, f"the set was made by {len(groups)} rules", shown)]
