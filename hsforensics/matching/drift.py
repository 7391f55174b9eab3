"""Numeric drift: the right states in the right order, with an error that grows with depth."""

from __future__ import annotations

from collections.abc import Sequence

from hsforensics.matching.identify import MAJORITY, Match

LEAST_ERROR = 0.02
"""Below this the deepest channel's error is rounding, not drift."""

GROWTH = 2.0
"""Deepest error over shallowest, at least."""


def drifting(matches: Sequence[Match]) -> list[Match]:
    """The channels of one side, by depth, if their errors grow with depth; empty when they do not.

    Only channels whose best state is a numbered one with a majority of the votes count; there must be two.
    """
    found = [item for item in matches if isinstance(item.state, int) and _nearest_for_sure(item)]
    found.sort(key=lambda item: int(item.state or 0))
    errors = [item.distance or 0.0 for item in found]
    if len(set(errors)) < 2 or errors != sorted(errors):
        return []
    return found if errors[-1] >= max(LEAST_ERROR, GROWTH * errors[0]) else []


def _nearest_for_sure(match: Match) -> bool:
    floor = match.votes_interval[0] if match.votes_interval else (match.votes or 0.0)
    return match.identity in ("exact", "match", "ambiguous") and floor > MAJORITY
