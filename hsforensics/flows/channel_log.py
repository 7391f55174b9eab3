"""What is seen of one channel, sample by sample, and what all samples together say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hsforensics.flows.health_findings import health_findings
from hsforensics.matching.distance import median_norm
from hsforensics.matching.groups import Held
from hsforensics.matching.health import HealthIssue, check_channel, rows_where, useless_rows
from hsforensics.matching.hypotheses.case import Explanation
from hsforensics.matching.identify import Match
from hsforensics.matching.row_hash import RowLedger
from hsforensics.states import Channel, Finding, State

if TYPE_CHECKING:
    from torch import Tensor

FIRST_VALUES = 5
STALE_SHARE = 0.02
"""More than this share of a sample's rows must come from another sample before it is reported."""


@dataclass(frozen=True)
class Evidence:
    """What all samples together say of one channel; fields as in ``hsforensics.results.ChannelRecord``.

    Attributes:
        tables: (number of the pair, [rows, S] distances to every state) for each sample that could be compared.
        explanation: The transform that makes it of a state, when it is none.
        factor: Constant factor of a match, where it is not 1.
        held: Number of the pair -> what the channel holds in it, judged alone.
        short: What is told of samples with more or fewer rows than tokens, unless values say which rows they are.
    """

    index: int
    label: str
    match: Match
    norm: float | None
    row: int | None
    values: tuple[float | None, ...]
    reference: tuple[float | None, ...]
    claimed_reference: tuple[float | None, ...]
    findings: tuple[Finding, ...]
    tables: tuple[tuple[int, Tensor], ...] = ()
    explanation: Explanation | None = None
    agreement: float | None = None
    factor: float | None = None
    held: Mapping[int, Held] = field(default_factory=dict)
    short: tuple[Finding, ...] = ()


@dataclass
class ChannelLog:
    """What was seen of one channel so far: norms and health of each sample, first values of the first one."""

    channel: Channel
    norms: list[float] = field(default_factory=list)
    row: int | None = None
    values: tuple[float | None, ...] = ()
    issues: list[tuple[str, HealthIssue]] = field(default_factory=list)
    tables: list[tuple[int, Tensor]] = field(default_factory=list)
    _ledger: RowLedger = field(default_factory=RowLedger)

    def admit(self, channel: Channel, sample: str, token_ids: Tensor, hidden_size: int, *, counts: bool = True) -> bool:
        """Note a channel's health, norm and first values; whether its rows can and should be compared.

        ``counts``: whether it is no copy of an earlier one; of a copy only the health is noted.
        """
        issues = check_channel(channel.values, token_ids, hidden_size)
        self.issues += [(sample, issue) for issue in issues]
        if any(issue.kind in ("shape", "short") for issue in issues) or not len(channel.values):
            return False
        self._look_back(channel, sample, token_ids)
        if not counts:
            return False
        norm = median_norm(channel.values)
        self.norms += [] if norm is None else [norm]
        if self.row is None:
            self.row = min(1, len(channel.values) - 1)  # row 0 is often an attention sink
            self.values = first_values(channel.values[self.row])
        return True

    def _look_back(self, channel: Channel, sample: str, token_ids: Tensor) -> None:
        """Rows that an earlier sample holds for other tokens."""
        stale, source = self._ledger.stale(sample, channel.values, token_ids)
        stale &= ~useless_rows(channel.values, token_ids)
        message = (
            f"{{count}} rows ({{share}}) are those of {source}, although the tokens differ; first is row {{first}}"
        )
        issue = rows_where(stale, "stale", message, 0.02)
        self.issues += [] if issue is None else [(sample, issue)]

    def close(self, match: Match, row_of: Callable[[State, int], Tensor | None]) -> Evidence:
        """The evidence, with the first values of the matched and of the claimed state beside the channel's own.

        Args:
            match: What the channel was found to be.
            row_of: Row ([H]) of a state in the first sample, or ``None`` where the evidence at hand lacks it.
        """
        norm = sorted(self.norms)[len(self.norms) // 2] if self.norms else None
        claim = None if self.channel.claim == match.state else self.channel.claim
        return Evidence(
            index=self.channel.index,
            label=self.channel.label,
            match=match,
            norm=norm,
            row=self.row,
            values=self.values,
            reference=self._beside(match.state, row_of),
            claimed_reference=self._beside(claim, row_of),
            findings=tuple(self._told(match, short=False)),
            tables=tuple(self.tables),
            short=tuple(self._told(match, short=True)),
        )

    def _told(self, match: Match, *, short: bool) -> list[Finding]:
        """Findings about samples with too few rows, or about all else; tokens may share an embedding row."""
        issues = [item for item in self.issues if (item[1].kind == "short") == short]
        return health_findings([item for item in issues if not (item[1].few and match.known == 0)], self.channel.label)

    def _beside(self, state: State | None, row_of: Callable[[State, int], Tensor | None]) -> tuple[float | None, ...]:
        row = None if state is None or self.row is None else row_of(state, self.row)
        return () if row is None else first_values(row)


def first_values(row: Tensor) -> tuple[float | None, ...]:
    """The first five values of a row [H], as people compare them by eye; ``None`` for what is not finite."""
    return tuple(float(value) if bool(value.isfinite()) else None for value in row[:FIRST_VALUES].float())
