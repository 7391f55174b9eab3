"""Does a live capture agree with itself? The served states must be states of the engine's own bank, from the same pass.

Same pass, same device, same kernels: what is served differs from the state that it is by one rounding at most (engines
that add the residual in a kernel of their own round once more). Anything farther is a fault of the engine, not of ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hsforensics.findings import finding
from hsforensics.matching.distance import relative_distance
from hsforensics.states import Finding, State, show_state

if TYPE_CHECKING:
    from torch import Tensor, dtype

TOLERANCE: Final = {"bfloat16": 1e-2, "float16": 2e-3}
"""Largest relative distance of a row that is one state, by dtype: a few units in the last place."""

TOLERANCE_ELSE: Final = 1e-4


RANK_TOLERANCE: Final = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""The same for two ranks: an all-reduce gives all of them the same bits, so no more than one rounding."""

RANK_TOLERANCE_ELSE: Final = 1e-5


def rows_off_bank(tables: Sequence[Tensor], column: int, dtype: dtype) -> float:
    """Share of rows farther from a state of the bank than rounding explains, for a channel of the bank's own pass.

    Args:
        tables: [T, S] distances of each sequence.
        column: Of the state.
        dtype: Of the channel.
    """
    import torch

    rows = torch.cat([table[:, column] for table in tables])
    return float((rows > TOLERANCE.get(str(dtype).removeprefix("torch."), TOLERANCE_ELSE)).float().mean())


def ranks_apart(by_rank: Sequence[Tensor]) -> Tensor:
    """Largest relative distance of another rank's row to the first rank's: R times [T, H] -> [T] fp32.

    Zero where they differ by one rounding at most; infinite where another rank holds no number. Rows that are no
    numbers on the first rank are its own fault, and 0 here.
    """
    import torch

    first, *others = by_rank
    worst = torch.zeros(len(first))
    for values in others:
        worst = torch.maximum(worst, relative_distance(values, first).nan_to_num(nan=float("inf")))
    limit = RANK_TOLERANCE.get(str(first.dtype).removeprefix("torch."), RANK_TOLERANCE_ELSE)
    return worst.where((worst > limit) & first.isfinite().all(dim=1), torch.zeros(()))


@dataclass
class SelfCheck:
    """Gathers evidence request by request.

    Attributes:
        distances: For each served slot, the worst median distance to every state so far.
        fc: For each request, the worst distance of what ``fc`` received to the joined served states; ``None`` where
            nothing was received.
        dtype: dtype of the states.
        ranks: For each served slot, rows in which tensor-parallel ranks differ, all rows, and the largest distance.
    """

    distances: dict[int, dict[State, float]] = field(default_factory=dict)
    fc: list[float | None] = field(default_factory=list)
    dtype: str = "float32"
    ranks: dict[int, tuple[int, int, float]] = field(default_factory=dict)

    def add(
        self,
        served: Sequence[Tensor],
        states: Mapping[State, Tensor],
        fc: Sequence[Tensor],
        ranks: Sequence[Sequence[Tensor]] = (),
    ) -> None:
        """Take one request.

        Args:
            served: [T, H] for each slot.
            states: State -> [T, H]; middle states are not asked.
            fc: What ``fc`` received, and what the drafter was handed before norms of its own: [T, n * H] each, or none.
            ranks: What the other ranks served, each like ``served``.
        """
        known = {state: value for state, value in states.items() if not str(state).startswith("mid")}
        for slot, values in enumerate(served):
            worst = self.distances.setdefault(slot, {})
            for state, value in known.items():
                median = float(relative_distance(values, value).nan_to_num(nan=float("inf")).median())
                worst[state] = max(worst.get(state, 0.0), median)
            self.dtype = str(values.dtype).removeprefix("torch.")
        for slot, by_rank in enumerate(zip(served, *ranks, strict=False) if ranks else ()):
            apart = ranks_apart(by_rank)
            differing, rows, farthest = self.ranks.get(slot, (0, 0, 0.0))
            farthest = max([farthest, *apart.tolist()])
            self.ranks[slot] = (differing + int((apart > 0).sum()), rows + len(apart), farthest)
        if served:
            self.fc.append(_fc_distance(served, fc))

    def nearest(self) -> tuple[tuple[State, float], ...]:
        """For each slot, the state that it is nearest to in every request, and the distance."""
        return tuple(min(table.items(), key=lambda item: item[1]) for _, table in sorted(self.distances.items()))

    def findings(self) -> list[Finding]:
        """What does not agree; empty for a sound capture."""
        limit = TOLERANCE.get(self.dtype, TOLERANCE_ELSE)
        found = []
        for slot, (state, distance) in enumerate(self.nearest()):
            if not distance <= limit:
                message = f"served slot {slot} is no state of the engine's own bank; {show_state(state)} is nearest"
                evidence = f"distance {distance:.3g}, at most {limit:g} for {self.dtype}"
                found.append(finding("served-off-bank", f"served.{slot}", message, evidence))
        return [*found, *self._rank_findings(), *self._fc_findings(limit)]

    def _rank_findings(self) -> list[Finding]:
        found = []
        for slot, (differing, rows, worst) in self.ranks.items():
            if differing:
                message = f"tensor-parallel ranks serve different values in slot {slot}"
                evidence = f"in {differing} of {rows} rows, up to {worst:.3g} apart"
                found.append(finding("ranks-disagree", f"served.{slot}", message, evidence))
        return found

    def _fc_findings(self, limit: float) -> list[Finding]:
        requests = len(self.fc)
        silent = sum(distance is None for distance in self.fc)
        off = [distance for distance in self.fc if distance is not None and not distance <= limit]
        found = []
        if silent:
            message = f"in {silent} of {requests} requests the drafter's fc received nothing on the prompt"
            found.append(finding("fc-not-reached", "fc", message, "no call of fc was seen"))
        if off:
            message = f"in {len(off)} of {requests} requests fc received something else than the joined served states"
            found.append(finding("fc-input-differs", "fc", message, f"distance {max(off):.3g}, at most {limit:g}"))
        return found


def _fc_distance(served: Sequence[Tensor], fc: Sequence[Tensor]) -> float | None:
    """Distance to the nearer of what ``fc`` received and what the drafter was handed; infinite when widths differ."""
    import torch

    joined = torch.cat(list(served), dim=1)  # [T, n * H]
    if not fc:
        return None
    fitting = [relative_distance(value, joined) for value in fc if value.shape == joined.shape]
    return min((float(column.nan_to_num(nan=float("inf")).max()) for column in fitting), default=float("inf"))
