"""The cheapest evidence: what the target's own files say about a channel, without running the target.

It can prove two things: that a channel is (or is not) the embedding, by comparing with the embedding rows of the
sample's own tokens; and that it is (or is not) postnorm, since an RMS norm leaves ``RMS(x / gain) = 1`` in every row.
It cannot tell states 1 to L apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_TINY = 1e-12


def postnorm_rms(values: Tensor, norm_gain: Tensor) -> Tensor:
    """``RMS(x / gain)`` of each row: 1 in every row if ``x`` is the output of the RMS norm with this gain.

    Channels whose gain is under 1 % of the median gain are left out: the division would amplify their rounding.

    Args:
        values: [T, H], any float dtype.
        norm_gain: [H], the factor that the norm multiplies with.

    Returns:
        [T] fp32.
    """
    gain = norm_gain.float()
    usable = gain.abs() > 0.01 * gain.abs().median()  # [H]
    ratio = values[:, usable].float() / gain[usable]  # [T, H']
    rms: Tensor = ratio.square().mean(dim=1).sqrt()
    return rms


def cosine_to(values: Tensor, rows: Tensor) -> Tensor:
    """Cosine of each row with its partner: [T, H], [T, H] -> [T] fp32; blind to a constant scale."""
    x, y = values.float(), rows.float()
    norms = x.norm(dim=1) * y.norm(dim=1)
    return (x * y).sum(dim=1) / norms.clamp_min(_TINY)
