"""Intervals over sequences: tokens of one sequence correlate, so whole sequences are resampled, never tokens."""

from __future__ import annotations

from collections.abc import Sequence

from hsforensics.results import Interval

RESAMPLES = 2000
LEVEL = 0.95


def ratio_interval(parts: Sequence[float], wholes: Sequence[float], seed: int) -> Interval | None:
    """95 % percentile bootstrap interval of ``sum(parts) / sum(wholes)`` over sequences.

    Args:
        parts: One numerator for each sequence, such as the number of correct positions.
        wholes: One denominator for each sequence, such as the number of positions; each at least 0.
        seed: Seed of the resampling.

    Returns:
        ``(low, high)``, or ``None`` with fewer than two sequences that have a positive denominator.
    """
    import numpy as np
    from scipy.stats import bootstrap

    pairs = [(part, whole) for part, whole in zip(parts, wholes, strict=True) if whole > 0]
    if len(pairs) < 2:
        return None
    part_array, whole_array = (np.asarray(column, dtype=np.float64) for column in zip(*pairs, strict=True))

    def ratio(part: np.ndarray, whole: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray(part.sum(axis=axis) / whole.sum(axis=axis))

    if np.ptp(part_array / whole_array) == 0.0:  # every resample gives the same ratio
        return float(part_array[0] / whole_array[0]), float(part_array[0] / whole_array[0])
    found = bootstrap(
        (part_array, whole_array),
        ratio,
        n_resamples=RESAMPLES,
        paired=True,
        vectorized=True,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)
