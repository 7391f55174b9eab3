"""Padding at the end of samples: rows that are zero in every channel where no text is. It is cut off, and told.

A zero row is a fault, except where three things come together: it is zero in every channel, nothing but such rows
follows, and its token says that there is no text: it lies beyond the loss mask, it is a padding or end token of the
target, or all such rows of the set have one token that no other row has.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hsforensics.findings import finding
from hsforensics.flows.fingerprint_sides import SketchedSample
from hsforensics.matching.floats import computable
from hsforensics.states import Finding, Sample, Severity

if TYPE_CHECKING:
    from torch import Tensor

NAMED = 3
"""Samples that a finding names with their rows."""


def without_padding(samples: Sequence[Sample], padding_ids: Collection[int]) -> tuple[list[Sample], list[Finding]]:
    """The samples without padding at their ends, and findings that name the rows.

    Args:
        samples: Of one set. Fingerprints stay as they are.
        padding_ids: Padding and end tokens of the target, where its files are known.
    """
    empty = [_empty_rows(sample) for sample in samples]
    known = {*padding_ids, *_only_empty(samples, empty)}
    counts = [_padding(sample, rows, known) for sample, rows in zip(samples, empty, strict=True)]
    cut = [_cut(sample, count) if count else sample for sample, count in zip(samples, counts, strict=True)]
    padded = [(sample, count) for sample, count in zip(samples, counts, strict=True) if count]
    loud = [item for item in padded if not _masked(*item)]
    quiet = [item for item in padded if _masked(*item)]
    return cut, [*_told(quiet, len(samples), trained=False), *_told(loud, len(samples), trained=True)]


def _empty_rows(sample: Sample) -> int:
    """Rows at the very end that are zero in every channel; 0 where shapes do not fit, or no row is anything else."""
    tokens = len(sample.token_ids)
    shapes = all(channel.values.ndim == 2 and len(channel.values) == tokens for channel in sample.channels)
    if isinstance(sample, SketchedSample) or not shapes or not tokens or not sample.channels:
        return 0
    fewest = tokens
    for channel in sample.channels:
        fewest = min(fewest, _zeros_at_end(computable(channel.values)[tokens - fewest :]))
    return 0 if fewest == tokens else fewest


def _zeros_at_end(values: Tensor) -> int:
    """Of rows [R, H], how many at the end are zero."""
    filled = (values != 0).any(dim=1).flip(0)  # [R], NaN counts as filled
    return int(filled.int().argmax()) if bool(filled.any()) else len(values)


def _only_empty(samples: Sequence[Sample], empty: Sequence[int]) -> set[int]:
    """The one token of all empty rows at the ends, if they are two or more, and no other row of the set has it."""
    ends = [
        sample.token_ids[len(sample.token_ids) - rows :].tolist() for sample, rows in zip(samples, empty, strict=True)
    ]
    tokens = [token for end in ends for token in end]
    if len(tokens) < 2 or len(set(tokens)) > 1:
        return set()
    everywhere = sum(int((sample.token_ids == tokens[0]).sum()) for sample in samples)
    return {tokens[0]} if everywhere == len(tokens) else set()


def _padding(sample: Sample, empty: int, padding_ids: Collection[int]) -> int:
    """Of the empty rows at the end, those that are padding: beyond the loss mask, or of padding tokens."""
    if not empty:
        return 0
    tokens = sample.token_ids.tolist()
    count = 0
    while count < empty and tokens[-1 - count] in padding_ids:
        count += 1
    return max(count, min(empty, _beyond_mask(sample)))


def _beyond_mask(sample: Sample) -> int:
    """Rows after the last one that is trained on; 0 without a mask that fits and trains on something."""
    mask = sample.loss_mask
    if mask is None or len(mask) != len(sample.token_ids) or not bool((mask != 0).any()):
        return 0
    return int((mask != 0).flip(0).int().argmax())


def _cut(sample: Sample, count: int) -> Sample:
    rows = len(sample.token_ids) - count
    mask = sample.loss_mask
    return replace(
        sample,
        token_ids=sample.token_ids[:rows],
        channels=tuple(replace(channel, values=channel.values[:rows]) for channel in sample.channels),
        loss_mask=mask[:rows] if mask is not None and len(mask) == rows + count else mask,
    )


def _masked(sample: Sample, count: int) -> bool:
    """Whether a loss mask leaves the padding out."""
    return _beyond_mask(sample) >= count


def _told(padded: Sequence[tuple[Sample, int]], samples: int, *, trained: bool) -> list[Finding]:
    if not padded:
        return []
    rows = sum(count for _, count in padded)
    what = f"{rows} row{'s'[: rows != 1]} at the end of {len(padded)} of {samples} samples"
    verb, them = ("is", "it") if rows == 1 else ("are", "them")
    why = f"{'no' if trained else 'the'} loss mask leaves {them} out"
    message = f"{what} {verb} padding: zero in every channel, not compared; {why}"
    shown = ", ".join(f"{sample.name} {_rows(sample, count)}" for sample, count in padded[:NAMED])
    more = f" and {len(padded) - NAMED} more" if len(padded) > NAMED else ""
    severity: Severity = "warning" if trained else "info"
    return [finding("rows-padding", padded[0][0].name, message, f"{shown}{more}", severity=severity)]


def _rows(sample: Sample, count: int) -> str:
    last = len(sample.token_ids) - 1
    return f"row {last}" if count == 1 else f"rows {last - count + 1} to {last}"
