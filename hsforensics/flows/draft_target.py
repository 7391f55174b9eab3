"""Is a dump's target channel the target's last state? Its place is a convention; its values must say so.

Postnorm shows in the values themselves. A state before the norm does not: only what the head chooses from it can be
held against the text. The last state reproduces text that the target wrote, and an earlier one does not; of other text
nobody can say how much the last state should reproduce.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hsforensics.drafter.ranking import MIN_LEAD
from hsforensics.findings import finding
from hsforensics.flows.draft_data import Reading
from hsforensics.flows.draft_findings import plural
from hsforensics.matching.bootstrap import ratio_interval
from hsforensics.results import Interval
from hsforensics.states import Finding

if TYPE_CHECKING:
    from torch import Tensor

REPRODUCED = 0.95
"""The last state chooses at least this share of a text that the target wrote. Measured on greedy text in bf16: 99 % for
SmolLM2-135M, and 61 % from its state L - 1; 100 % and 40 % for the incident's target."""

PROBES = 16
"""Sequences in which the other channels' choices are counted, too."""


@dataclass
class TargetCheck:
    """How often the next token of the text is what the target's head chooses, from the target channel and from others.

    Attributes:
        name: The target channel.
        rows: For each sequence, rows that have a next token, and loss mask 1 at it where there is a mask.
        hits: Those of them whose choice is the next token.
        others: Channel -> the same hits, of the first sequences.
    """

    name: str = ""
    rows: list[int] = field(default_factory=list)
    hits: list[int] = field(default_factory=list)
    others: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, reading: Reading, chosen: Tensor, choose: Callable[[Tensor], Tensor]) -> None:
        """Count one sequence.

        Args:
            reading: Its target channel is before the norm.
            chosen: [T] int64, what the head chooses from that channel.
            choose: The same for any channel [T, H].
        """
        self.name = reading.final_name
        hits, rows = _agreement(chosen, reading)
        if len(self.rows) < PROBES:
            for number, values in reading.channels.items():
                if f"channel {number}" != self.name:
                    self.others[f"channel {number}"].append(_agreement(choose(values), reading)[0])
        self.hits.append(hits)
        self.rows.append(rows)

    @property
    def share(self) -> float | None:
        """Share of the text that the target channel reproduces; ``None`` where nothing was counted."""
        return sum(self.hits) / sum(self.rows) if sum(self.rows) else None

    @property
    def proof(self) -> str:
        """That share in words, and the best of the other channels."""
        if self.share is None:
            return "no row with a next token that is trained on"
        rows = plural(sum(self.rows), "row")
        words = f"the head's choice from {self.name} is the next token in {self.share:.1%} of {rows}"
        best = max(self.others, key=self._share_of, default=None)
        return words if best is None else f"{words}, from {best} in {self._share_of(best):.1%}"

    def findings(self, seed: int) -> list[Finding]:
        """What the counts leave open: a channel that another one certainly beats is not the last state."""
        better = max(self.others, key=self._share_of, default=None)
        if not self.rows or self._reproduces(better, seed):
            return []
        if better is not None and self._lead(better, seed)[1] < -MIN_LEAD:
            message = f"{self.name} is not the target's last state: {better} reproduces more of the text"
            remedy = f"if {better} holds the last state, name it (--target-channel {better.removeprefix('channel ')})"
            return [finding("target-not-final", self.name, message, self.proof, remedy=remedy)]
        message = f"nothing but its place says that {self.name} is the target's last state, which all figures rest on"
        return [finding("target-unchecked", self.name, message, self.proof)]

    def _share_of(self, channel: str) -> float:
        hits = self.others[channel]
        return sum(hits) / max(1, sum(self.rows[: len(hits)]))

    def _reproduces(self, rival: str | None, seed: int) -> bool:
        """Whether it writes the text, and the best other channel certainly does not: a dull text proves nothing."""
        enough = self.share is not None and self.share >= REPRODUCED
        return enough and (rival is None or self._lead(rival, seed)[0] > MIN_LEAD)

    def _lead(self, rival: str, seed: int) -> Interval:
        """Of the target channel over another one; anything is possible with fewer than two sequences."""
        leads = [ours - theirs for theirs, ours in zip(self.others[rival], self.hits, strict=False)]
        return ratio_interval(leads, self.rows[: len(leads)], seed) or (-1.0, 1.0)


def _agreement(chosen: Tensor, reading: Reading) -> tuple[int, int]:
    """Rows whose choice is the next token, and rows that count."""
    right = chosen[:-1].cpu() == reading.token_ids[1:]
    if reading.loss_mask is not None:
        right = right[reading.loss_mask[1:].bool()]
    return int(right.sum()), len(right)
