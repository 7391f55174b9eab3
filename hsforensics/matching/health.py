"""Is a channel fit to be compared at all? Checked before any match: garbage matches something, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from hsforensics.matching.floats import computable

if TYPE_CHECKING:
    from torch import Tensor

CONSTANT_SHARE = 0.02
"""More equal or zero rows than this share of a sample are an error; fewer are told, and do not touch the verdict."""

FP16_MAX = 65504.0
"""Largest finite value of fp16: an engine or trainer that casts to it turns anything beyond into Inf."""

Kind: TypeAlias = (
    Literal["shape", "short", "dtype", "nonfinite", "constant", "duplicate", "stale", "overflow"]
    | Literal["tokens", "mask-length", "mask-empty"]
)
"""``shape`` and ``short`` (more or fewer rows than tokens) make a channel useless in its sample, ``nonfinite`` rows are
left out, all others stay compared."""


@dataclass(frozen=True)
class HealthIssue:
    """One thing wrong with one channel of one sample, or with its tokens or loss mask.

    Attributes:
        kind: See ``Kind``.
        rows: How many rows, and
        first: the first of them.
        message: In words, allowed versus got.
        spans: Runs of these rows, (first, last) each; empty where the sample as a whole is meant.
        few: Whether they are too few to matter for what the channel is.
    """

    kind: Kind
    rows: int
    first: int
    message: str
    spans: tuple[tuple[int, int], ...] = ()
    few: bool = False


def check_channel(values: Tensor, token_ids: Tensor, hidden_size: int | None) -> tuple[HealthIssue, ...]:
    """Health of a channel [T', H'] of a sample with ``token_ids`` [T]; ``hidden_size`` ``None`` when unknown."""
    rows, width = values.shape
    if not values.is_floating_point():
        return (HealthIssue("shape", rows, 0, f"dtype {values.dtype}, but hidden states are floating point"),)
    if rows != len(token_ids):
        return (HealthIssue("short", rows, 0, f"{rows} rows for {len(token_ids)} token ids"),)
    if hidden_size is not None and width != hidden_size:
        return (HealthIssue("shape", rows, 0, f"width {width}, but the target's hidden size is {hidden_size}"),)
    plain = computable(values)
    found = (check(plain, token_ids) for check in _ROW_CHECKS)
    return tuple(issue for issue in found if issue is not None)


def rows_where(bad: Tensor, kind: Kind, message: str, least: float = 0.0) -> HealthIssue | None:
    """An issue about the rows where ``bad`` ([T] bool) holds; they are few up to the share ``least`` of all.

    ``message`` may use ``{count}``, ``{rows}``, ``{share}`` and ``{first}``.
    """
    count = int(bad.sum())
    if not count:
        return None
    first = int(bad.int().argmax())
    words = message.format(count=count, rows=len(bad), share=f"{count / len(bad):.0%}", first=first)
    return HealthIssue(kind, count, first, words, runs_of(bad), few=count <= least * len(bad))


def runs_of(rows: Tensor) -> tuple[tuple[int, int], ...]:
    """Runs of consecutive rows ([T] bool), by (first, last)."""
    import torch

    edges = torch.nn.functional.pad(rows.cpu().int(), (1, 1)).diff()  # [T + 1]: 1 where a run begins, -1 after its end
    starts, ends = ((edges == step).nonzero().flatten().tolist() for step in (1, -1))
    return tuple((first, after - 1) for first, after in zip(starts, ends, strict=True))


def _nonfinite(values: Tensor, _token_ids: Tensor) -> HealthIssue | None:
    bad = ~values.isfinite().all(dim=1)  # [T]
    return rows_where(bad, "nonfinite", "NaN or Inf in {count} of {rows} rows, first in row {first}")


def useless_rows(values: Tensor, token_ids: Tensor) -> Tensor:
    """Rows [T] bool that carry nothing: one value throughout (zero, mostly), or equal to the row before although the
    token is another one, which is what a wrong buffer gives. The zero row of a padding token is no fault."""
    values = computable(values)
    found: Tensor = (values == values[:, :1]).all(dim=1) if values.shape[1] > 1 else (values == 0).all(dim=1)
    found &= ~_padding(found, token_ids)
    found[1:] |= (values[1:] == values[:-1]).all(dim=1) & (token_ids[1:] != token_ids[:-1])
    return found


def _padding(constant: Tensor, token_ids: Tensor) -> Tensor:
    """Constant rows [T] bool that all belong to one repeated token whose rows are all constant: its embedding is so."""
    tokens = token_ids[constant]
    if len(tokens) < 2 or not bool((tokens == tokens[0]).all()):
        return constant & False
    theirs: Tensor = token_ids == tokens[0]
    whole = bool(constant[theirs].all()) and not bool(theirs.all())
    return theirs if whole else theirs & False


def _constant(values: Tensor, token_ids: Tensor) -> HealthIssue | None:
    if len(values) < 2:
        return None
    message = "{count} rows ({share}) are zero, constant or repeat, first is row {first}"
    return rows_where(useless_rows(values, token_ids), "constant", message, CONSTANT_SHARE)


def _overflow(values: Tensor, _token_ids: Tensor) -> HealthIssue | None:
    bad = ((values.abs() > FP16_MAX) & values.isfinite()).any(dim=1)  # [T]
    return rows_where(bad, "overflow", "{count} of {rows} rows exceed fp16's largest value 65504, first is row {first}")


def _duplicate(values: Tensor, token_ids: Tensor) -> HealthIssue | None:
    from hsforensics.matching.row_hash import repeated_rows

    bad = repeated_rows(values, token_ids) & ~useless_rows(values, token_ids)
    message = "{count} rows ({share}) repeat the row of another token in this sample, first is row {first}"
    return rows_where(bad, "duplicate", message, CONSTANT_SHARE)


_ROW_CHECKS: tuple[Callable[[Tensor, Tensor], HealthIssue | None], ...] = (
    _nonfinite,
    _constant,
    _duplicate,
    _overflow,
)


def check_tokens(token_ids: Tensor, vocab_size: int | None) -> HealthIssue | None:
    """Token ids [T] that no embedding row exists for; without a vocabulary size only negative ones."""
    bad = token_ids < 0
    limit = "token ids must not be negative"
    if vocab_size is not None:
        bad, limit = bad | (token_ids >= vocab_size), f"token ids must lie in 0..{vocab_size - 1}"
    worst = int(token_ids[bad][0]) if bool(bad.any()) else 0
    return rows_where(bad, "tokens", f"{limit}: {{count}} do not, first is {worst} in row {{first}}")


def check_mask(loss_mask: Tensor | None, rows: int) -> HealthIssue | None:
    """A loss mask [T''] that does not fit its T rows, or that trains on nothing."""
    if loss_mask is None:
        return None
    if len(loss_mask) != rows:
        return HealthIssue("mask-length", len(loss_mask), 0, f"loss mask has {len(loss_mask)} entries for {rows} rows")
    if rows and not bool((loss_mask != 0).any()):
        return HealthIssue("mask-empty", rows, 0, f"loss mask is zero in all {rows} rows: nothing of it is trained on")
    return None
