"""Health of whole samples: token ids, loss masks, dtypes, channels that are copies of each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from hsforensics.findings import finding
from hsforensics.flows.health_findings import health_findings
from hsforensics.matching.floats import computable
from hsforensics.matching.health import check_mask, check_tokens
from hsforensics.states import Finding, Sample


def sample_findings(samples: Sequence[Sample], vocab_size: int | None) -> list[Finding]:
    """Every finding about samples as wholes.

    Args:
        samples: With equally many channels each.
        vocab_size: Rows of the target's embedding, ``None`` when unknown.
    """
    noted = []
    for sample in samples:
        rows = len(sample.token_ids)
        issues = (check_tokens(sample.token_ids, vocab_size), check_mask(sample.loss_mask, rows))
        noted += [(sample.name, issue) for issue in issues if issue is not None]
    return [*health_findings(noted), *_full_masks(samples), *_dtypes(samples), *_equal_channels(samples)]


def _full_masks(samples: Sequence[Sample]) -> Iterator[Finding]:
    masks = [sample.loss_mask for sample in samples if sample.loss_mask is not None and len(sample.loss_mask)]
    if masks and all(bool((mask != 0).all()) for mask in masks):
        message = f"the loss mask is one throughout in every sample that has one ({len(masks)})"
        yield finding("mask-full", "dump", message, f"{sum(len(mask) for mask in masks)} rows, none masked")


def _dtypes(samples: Sequence[Sample]) -> Iterator[Finding]:
    """dtypes of channels, where there is more than one in the set."""
    seen: dict[str, str] = {}
    for sample in samples:
        for channel in sample.channels:
            name = str(channel.values.dtype).removeprefix("torch.")
            seen.setdefault(name, f"{sample.name}, {channel.label}")
    if len(seen) > 1:
        evidence = "; ".join(f"{name}: first in {where}" for name, where in sorted(seen.items()))
        yield finding("dtype-mixed", "dump", f"channels have {len(seen)} dtypes: {', '.join(sorted(seen))}", evidence)


def _equal_channels(samples: Sequence[Sample]) -> Iterator[Finding]:
    """Pairs of channels that are bit-equal in every sample."""
    for i, j in combinations(range(len(samples[0].channels)), 2):
        if all(_bit_equal(sample, i, j) for sample in samples):
            first, second = samples[0].channels[i].label, samples[0].channels[j].label
            message = f"{first} and {second} are bit-equal in all {len(samples)} samples"
            yield finding("channels-equal", f"{first}, {second}", message, "every value of every row")


def _bit_equal(sample: Sample, i: int, j: int) -> bool:
    import torch

    one, other = (computable(sample.channels[k].values) for k in (i, j))
    if one.shape != other.shape or not len(one) or not torch.equal(one[-1], other[-1]):
        return False
    return torch.equal(one, other)
