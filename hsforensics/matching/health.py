"""Is a channel fit to be compared at all? Checked before any match: garbage matches something, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

CONSTANT_SHARE = 0.02
"""Equal or zero rows up to this share are not reported: padding makes a few."""


@dataclass(frozen=True)
class HealthIssue:
    """One thing wrong with one channel of one sample.

    Attributes:
        kind: ``shape`` makes the channel useless in this sample; ``nonfinite`` rows are left out of the comparison;
            ``constant`` rows stay in it.
        rows: How many rows, and
        first: the first of them.
        message: In words, allowed versus got.
    """

    kind: Literal["shape", "nonfinite", "constant"]
    rows: int
    first: int
    message: str


def check_channel(values: Tensor, token_ids: Tensor, hidden_size: int | None) -> tuple[HealthIssue, ...]:
    """Health of a channel [T', H'] of a sample with ``token_ids`` [T]; ``hidden_size`` ``None`` when unknown."""
    rows, width = values.shape
    if rows != len(token_ids):
        return (HealthIssue("shape", rows, 0, f"{rows} rows for {len(token_ids)} token ids"),)
    if hidden_size is not None and width != hidden_size:
        return (HealthIssue("shape", rows, 0, f"width {width}, but the target's hidden size is {hidden_size}"),)
    found = (_nonfinite(values), _constant(values, token_ids))
    return tuple(issue for issue in found if issue is not None)


def _nonfinite(values: Tensor) -> HealthIssue | None:
    bad = ~values.isfinite().all(dim=1)  # [T]
    count = int(bad.sum())
    if not count:
        return None
    first = int(bad.int().argmax())
    return HealthIssue("nonfinite", count, first, f"NaN or Inf in {count} of {len(bad)} rows, first in row {first}")


def _constant(values: Tensor, token_ids: Tensor) -> HealthIssue | None:
    """Rows that are zero, or equal to the row before although the token is another one: what a wrong buffer gives."""
    if len(values) < 2:
        return None
    zero = (values == 0).all(dim=1)  # [T]
    repeated = zero.clone()
    repeated[1:] |= (values[1:] == values[:-1]).all(dim=1) & (token_ids[1:] != token_ids[:-1])
    count = int(repeated.sum())
    if count <= CONSTANT_SHARE * len(values):
        return None
    first = int(repeated.int().argmax())
    share = count / len(values)
    return HealthIssue("constant", count, first, f"{count} rows ({share:.0%}) are zero or repeat, first is row {first}")
