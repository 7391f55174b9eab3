"""Distances between a channel and the states of a bank, row by row, in fp32."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_TINY = 1e-30
_TILE_ELEMENTS = 1 << 22  # 16 MB of fp32 for each of a tile's three buffers


def relative_distance(values: Tensor, state: Tensor) -> Tensor:
    """``|x - s| / |s|`` of every row to its partner.

    The difference is formed before squaring, in fp32, so nearly equal tensors lose nothing to cancellation (as they
    would in ``|x|^2 - 2xs + |s|^2``). Dividing by the row's own norm keeps attention-sink rows, whose norm may be a
    hundred times the median, from outweighing the others.

    Args:
        values: [T, H], any float dtype.
        state: [T, H], any float dtype, on the same device.

    Returns:
        [T] fp32; NaN or Inf where a row of either side is not finite.
    """
    import torch

    rows, width = values.shape
    tile = max(1, _TILE_ELEMENTS // max(width, 1))
    column = values.new_empty(rows, dtype=torch.float32)
    for start in range(0, rows, tile):
        x, s = values[start : start + tile].float(), state[start : start + tile].float()  # [t, H]
        column[start : start + tile] = (x - s).norm(dim=1) / s.norm(dim=1).clamp_min(_TINY)
    return column


def distance_tables(channels: Sequence[Tensor], states: Iterable[Tensor]) -> list[Tensor]:
    """``relative_distance`` of every channel to every state; each state is read once for all channels.

    On a GPU one fused kernel does a batch of states in a single pass over memory (``distance_cuda``); elsewhere, and
    for what the kernel does not take, tiles of plain torch.

    Args:
        channels: C tensors [T, H].
        states: S tensors [T, H]; may be a generator that loads one at a time.

    Returns:
        C tables [T, S].
    """
    import torch

    if not channels:
        return []
    parts = [_tables(channels, batch) for batch in _batches(states, channels[0].is_cuda)]  # [T, s] for each channel
    return [torch.cat([part[place] for part in parts], dim=1) for place in range(len(channels))] if parts else []


def _tables(channels: Sequence[Tensor], states: Sequence[Tensor]) -> list[Tensor]:
    import torch

    from hsforensics.matching.distance_cuda import fused_tables, usable

    if usable(channels, states):
        return fused_tables(channels, states)
    columns = [[relative_distance(values, state) for values in channels] for state in states]  # s x C x [T]
    return [torch.stack(list(table), dim=1) for table in zip(*columns, strict=True)]


def _batches(states: Iterable[Tensor], on_gpu: bool) -> Iterator[list[Tensor]]:
    """States one by one on a CPU, and on a GPU as many as a quarter of its free memory holds."""
    import torch

    batch: list[Tensor] = []
    room = 0
    for state in states:
        if on_gpu and not batch:
            room = torch.cuda.mem_get_info(state.device)[0] // 4
        batch.append(state)
        room -= state.numel() * state.element_size()
        if room <= 0:
            yield batch
            batch = []
    if batch:
        yield batch


def scaled_distance(values: Tensor, other: Tensor) -> tuple[float, float]:
    """Median over rows of ``|x - a h| / |a h|`` with one constant a for all rows: ([N, H], [N, H]) -> (distance, a).

    a is the median over rows of the least-squares factor ``xh / hh``. (inf, 1) when no row can be compared.
    """
    x, h = values.float(), other.float()
    size = h.square().sum(dim=1)  # [N]
    usable = x.isfinite().all(dim=1) & size.isfinite() & (size > _TINY)
    if not bool(usable.any()):
        return float("inf"), 1.0
    x, h, size = x[usable], h[usable], size[usable]
    factor = float(((x * h).sum(dim=1) / size).median())
    if abs(factor) < 1e-9:
        return float("inf"), 1.0
    return float(relative_distance(x, factor * h).median()), factor


def median_norm(values: Tensor) -> float | None:
    """Median over finite rows of ``|x|``, or ``None`` when there is none: [T, H] -> float."""
    norms = values.float().norm(dim=1)  # [T]
    norms = norms[norms.isfinite()]
    return float(norms.median()) if len(norms) else None
