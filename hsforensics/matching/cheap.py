"""The cheapest evidence: what the target's own files say about a channel, without running the target.

It can show two things: that a channel is (or is not) postnorm, since an RMS norm leaves ``RMS(x / gain) = 1`` in every
row; and that it is (or is not) the embedding, when the embedding rows of the sample's own tokens times one constant are
its rows up to rounding. Direction alone is not enough: first layers that change little keep a cosine near 1. It cannot
tell states 1 to L apart, nor from anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hsforensics.matching.distance import relative_distance
from hsforensics.matching.floats import computable
from hsforensics.matching.identify import Match
from hsforensics.states import POSTNORM, Identity

if TYPE_CHECKING:
    from torch import Tensor

_TINY = 1e-12
EMBEDDING_COSINE = 0.99
"""A channel whose median row has less than this cosine with its token's embedding row is not the embedding."""

_ROUNDING = {"torch.bfloat16": 2.0**-6, "torch.float16": 2.0**-8, "torch.float32": 2.0**-8}
_ROUNDING_8_BIT = 2.0**-2
"""Largest median residual of the embedding after the best constant scale, by the coarsest dtype of the two sides.
(fp32 files may well have been rounded to fp16 or bf16 before, hence no finer.)"""

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
        residual: Relative distance to the embedding row times one constant for the whole sample.
        rounding: Largest residual that rounding can explain.
    """

    cosine: Tensor
    distance: Tensor
    rms: Tensor
    residual: Tensor
    rounding: float


def cheap_rows(values: Tensor, embedding_rows: Tensor, norm_gain: Tensor) -> CheapRows:
    """Compare a channel [T, H] with its tokens' embedding rows [T, H] and the final norm's gain [H].

    Rows that are not finite, and rows of one value throughout (zero, mostly), are left out.
    """
    plain, table = computable(values), computable(embedding_rows)
    usable = plain.isfinite().all(dim=1) & (plain != plain[:, :1]).any(dim=1)  # [T]
    x, rows = plain[usable], table[usable]
    limit = max(_rounding(values), _rounding(embedding_rows))
    residual = _unscaled(x, rows)
    return CheapRows(cosine_to(x, rows), relative_distance(x, rows), postnorm_rms(x, norm_gain), residual, limit)


def embedding_residual(values: Tensor, embedding_rows: Tensor) -> tuple[float, float]:
    """Median residual after the best constant scale, and the largest that rounding explains: two of [T, H]."""
    seen = cheap_rows(values, embedding_rows, embedding_rows.new_ones(embedding_rows.shape[1]))
    return (float(seen.residual.median()) if len(seen.residual) else float("inf")), seen.rounding


def alone_cheaply(part: CheapRows) -> Match:
    """``identify_cheaply`` for one sample, whose few rows rule postnorm out only when most of them do."""
    match = identify_cheaply([part])
    inside = ((part.rms - 1).abs() <= POSTNORM_TOLERANCE).float().mean()
    if match.known is not None or float(inside) < 0.5:
        return match
    return replace(match, excluded=tuple(state for state in match.excluded if state != POSTNORM))


def _rounding(values: Tensor) -> float:
    return _ROUNDING.get(str(values.dtype), _ROUNDING_8_BIT if values.element_size() == 1 else 2.0**-8)


def _unscaled(x: Tensor, rows: Tensor) -> Tensor:
    """Relative distance to ``rows`` times the median least-squares factor: [T, H], [T, H] -> [T]."""
    if not len(x):
        return x.new_empty(0).float()
    e = rows.float()
    factors = (x.float() * e).sum(dim=1) / e.square().sum(dim=1).clamp_min(_TINY)  # [T]
    return relative_distance(x, float(factors.median()) * e)


def identify_cheaply(parts: Sequence[CheapRows]) -> Match:
    """Say what the target's files alone say of a channel; ``parts`` holds one entry for each sample, at least one.

    Returns:
        Identity ``exact`` or ``match`` for embedding and postnorm; otherwise ``ambiguous`` without a state, with
        postnorm excluded, and the embedding, too, unless the direction is that of the embedding.
    """
    import torch

    cosine = torch.cat([part.cosine for part in parts])  # [N]
    distance = torch.cat([part.distance for part in parts])
    rms = torch.cat([part.rms for part in parts])
    if not len(cosine):
        return Match("unreadable", note="no row with finite values that differ from each other")
    middle, spread = float(cosine.median()), float(rms.median())
    evidence = f"cosine with the embedding rows {middle:.3f}, RMS(x / final norm gain) {spread:.3g}"
    exact = bool((distance == 0).all())
    if not exact and float(((rms - 1).abs() <= POSTNORM_TOLERANCE).float().mean()) >= POSTNORM_SHARE:
        return Match("match", POSTNORM, tokens=len(cosine), excluded=(0,), note=evidence)
    if middle < EMBEDDING_COSINE:
        note = f"neither the embedding nor postnorm (a state from 1 to L, or no state at all): {evidence}"
        return Match("ambiguous", tokens=len(cosine), excluded=(0, POSTNORM), note=note)
    residual, limit = float(torch.cat([part.residual for part in parts]).median()), parts[0].rounding
    if exact or residual <= limit:
        identity: Identity = "exact" if exact else "match"
        return Match(identity, 0, float(distance.median()), tokens=len(cosine), excluded=(POSTNORM,), note=evidence)
    off = f"off it by {residual:.3g}, more than rounding ({limit:.3g})"
    note = (
        f"in the direction of the embedding, but {off}: a state near it, or the embedding in low precision; {evidence}"
    )
    return Match("ambiguous", tokens=len(cosine), excluded=(POSTNORM,), note=note)
