"""All distances in one pass on a GPU: every element of channels and bank is read once, in one Triton kernel.

One program handles one tile of one row: it keeps the tile of every channel in registers and walks through all states,
so the pass is limited by the memory bandwidth of reading the bank. States may lie anywhere: the kernel gets a table of
addresses. Sums are formed in fp32 from differences, never from products, so nothing is lost to cancellation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

TILE = 512
MAX_CHANNELS = 8
_TINY = 1e-30


def usable(channels: Sequence[Tensor], states: Sequence[Tensor]) -> bool:
    """Whether the kernel takes these: on one GPU, one dtype a side, contiguous, of one shape, aligned to 16 bytes."""
    if not channels or not states or len(channels) > MAX_CHANNELS:
        return False
    first, kinds = channels[0], (channels[0].dtype, states[0].dtype)
    place = (first.is_cuda, first.device, first.shape)
    fits = (
        (item.is_cuda, item.device, item.shape) == place and item.is_contiguous() and item.data_ptr() % 16 == 0
        for item in (*channels, *states)
    )
    one_dtype = all(item.dtype == kinds[0] for item in channels) and all(item.dtype == kinds[1] for item in states)
    return first.is_cuda and one_dtype and all(fits) and _has_triton()


@cache
def _has_triton() -> bool:
    from importlib.util import find_spec

    return find_spec("triton") is not None


def fused_tables(
    channels: Sequence[Tensor], states: Sequence[Tensor], tile: int = TILE, warps: int = 1
) -> list[Tensor]:
    """``|x - s| / |s|`` of every channel to every state, row by row.

    Args:
        channels: C tensors [T, H] for which ``usable`` holds.
        states: S tensors [T, H] on the same device.
        tile: Columns that one program handles, a power of two.
        warps: Warps of one program.

    Returns:
        C tables [T, S] fp32 on the device.
    """
    import torch

    from hsforensics.matching.distance_kernel import distance_kernel

    rows, width = channels[0].shape
    paired = [*states, states[-1]] if len(states) % 2 else list(states)  # the kernel takes two at a time
    count, used = len(paired), len(channels)
    tiles = -(-width // tile)
    sums = torch.empty(tiles, rows, used + 1, count, dtype=torch.float32, device=channels[0].device)
    distance_kernel[(rows, tiles)](
        _addresses(channels),
        _addresses(paired),
        sums,
        rows,
        width,
        COUNT=count,
        CHANNELS=used,
        TILE=tile,
        X=_name(channels[0]),
        S=_name(states[0]),
        EXACT=width % tile == 0,
        num_warps=warps,
    )
    total = sums.sum(dim=0)[..., : len(states)]  # [T, C + 1, S]
    norms = total[:, used:].sqrt().clamp_min(_TINY)  # [T, 1, S]
    return list((total[:, :used].sqrt() / norms).unbind(dim=1))


def _addresses(tensors: Sequence[Tensor]) -> Tensor:
    import torch

    return torch.tensor([item.data_ptr() for item in tensors], dtype=torch.int64, device=tensors[0].device)


def _name(tensor: Tensor) -> Any:
    """Triton's name of a tensor's dtype."""
    import triton.language as tl  # type: ignore[import-not-found,unused-ignore]

    return getattr(tl, str(tensor.dtype).removeprefix("torch."))
