"""Numbers from a counter and a seed: the same on every machine, dtype and library version.

The mixing function is SplitMix64's finaliser applied to ``seed + (counter + 1) * golden ratio``, in wrapping 64-bit
arithmetic; nothing here depends on a library's random generator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = (1 << 64) - 1


def mix_array(keys: np.ndarray) -> np.ndarray:
    """Mix 64-bit keys: [n] uint64 -> [n] uint64, a bijection that looks random."""
    import numpy as np

    with np.errstate(over="ignore"):
        z = keys.astype(np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(_FIRST)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(_SECOND)
        return np.asarray(z ^ (z >> np.uint64(31)))


def mix(seed: int, count: int, start: int = 0) -> np.ndarray:
    """Numbers ``start`` to ``start + count - 1`` of the sequence of a seed: [count] uint64."""
    import numpy as np

    counters = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        return mix_array(counters * np.uint64(_GOLDEN) + np.uint64(seed & _MASK))
