"""The cheapest evidence: what the target's own files say about a channel, without running the target.

It can prove two things: that a channel is (or is not) the embedding, by comparing with the embedding rows of the
sample's own tokens; and that it is (or is not) postnorm, since an RMS norm leaves ``RMS(x / gain) = 1`` in every row.
It cannot tell states 1 to L apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsforensics.matching.distance import relative_distance
from hsforensics.matching.identify import Match
from hsforensics.states import POSTNORM, Identity

if TYPE_CHECKING:
    from torch import Tensor

_TINY = 1e-12
EMBEDDING_COSINE = 0.99
"""A channel is the embedding when its median row has at least this cosine with its token's embedding row."""

POSTNORM_TOLERANCE = 0.05
"""A channel is postnorm when at least ``POSTNORM_SHARE`` of its rows have an RMS within this of 1."""
POSTNORM_SHARE = 0.95


def postnorm_rms(values: Tensor, norm_gain: Tensor) -> Tensor:
    """``RMS(x / gain)`` of each row: 1 in every row if ``x`` is the output of the RMS norm with this gain.

    Columns whose gain is under 1 % of the median gain are left out: the division would amplify their rounding.

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
    norms = x.norm(dim=1) * y.norm(dim=1)  # [T]
    cosine: Tensor = (x * y).sum(dim=1) / norms.clamp_min(_TINY)
    return cosine


@dataclass(frozen=True)
class CheapRows:
    """Per-row evidence of one channel in one sample, each [T] fp32.

    Attributes:
        cosine: Cosine with the embedding row of the row's token.
        distance: Relative distance to it.
        rms: ``postnorm_rms``.
    """

    cosine: Tensor
    distance: Tensor
    rms: Tensor


def cheap_rows(values: Tensor, embedding_rows: Tensor, norm_gain: Tensor) -> CheapRows:
    """Compare a channel [T, H] with its tokens' embedding rows [T, H] and the final norm's gain [H].

    Rows that are not finite are left out.
    """
    finite = values.isfinite().all(dim=1)  # [T]
    x, rows = values[finite], embedding_rows[finite]
    return CheapRows(cosine_to(x, rows), relative_distance(x, rows), postnorm_rms(x, norm_gain))


def identify_cheaply(parts: Sequence[CheapRows]) -> Match:
    """Say what the target's files alone say of a channel; ``parts`` holds one entry for each sample, at least one.

    Returns:
        Identity ``exact`` or ``match`` for embedding and postnorm; otherwise ``ambiguous`` without a state (any of 1
        to L), with the embedding and postnorm excluded.
    """
    import torch

    cosine = torch.cat([part.cosine for part in parts])  # [N]
    distance = torch.cat([part.distance for part in parts])
    rms = torch.cat([part.rms for part in parts])
    if not len(cosine):
        return Match("unreadable", note="no finite row to compare")
    middle, spread = float(cosine.median()), float(rms.median())
    evidence = f"cosine with the embedding rows {middle:.3f}, RMS(x / final norm gain) {spread:.3g}"
    if middle >= EMBEDDING_COSINE:
        identity: Identity = "exact" if bool((distance == 0).all()) else "match"
        return Match(identity, 0, float(distance.median()), tokens=len(cosine), excluded=(POSTNORM,), note=evidence)
    if float(((rms - 1).abs() <= POSTNORM_TOLERANCE).float().mean()) >= POSTNORM_SHARE:
        return Match("match", POSTNORM, tokens=len(cosine), excluded=(0,), note=evidence)
    return Match("ambiguous", tokens=len(cosine), excluded=(0, POSTNORM), note=f"one of the states 1 to L: {evidence}")
