"""The Triton kernel of ``hsforensics.matching.distance_cuda``; imported only where triton is installed."""

# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def _tile(table, index, offset, lanes, inside, KIND: tl.constexpr, EXACT: tl.constexpr):
    """One tile of the tensor whose address is ``table[index]``; 0 beyond its width."""
    address = tl.multiple_of(tl.load(table + index), 16).to(tl.pointer_type(KIND)) + offset
    if EXACT:
        loaded = tl.load(address + lanes, eviction_policy="evict_first")
    else:
        loaded = tl.load(address + lanes, mask=inside, other=0.0, eviction_policy="evict_first")
    return loaded


@triton.jit
def distance_kernel(
    channel_table,
    state_table,
    sums,
    rows,
    width,
    COUNT: tl.constexpr,
    CHANNELS: tl.constexpr,
    TILE: tl.constexpr,
    X: tl.constexpr,
    S: tl.constexpr,
    EXACT: tl.constexpr,
):
    """Sums of squares for one tile of one row: of ``x - s`` for every channel and state, and of every state.

    Two states are worked on at a time while the next two are on their way; that, and one warp of its own for each
    program, is what keeps the memory busy (measured, see ``docs/benchmarks.md``).

    ``sums`` is [tiles, rows, CHANNELS + 1, COUNT] fp32; the last of the ``CHANNELS + 1`` is the state's own. ``COUNT``
    is even. ``EXACT``: the width is a whole number of tiles, so no load needs a mask.
    """
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1).to(tl.int64)
    offset = row * width + tile * TILE
    lanes = tl.arange(0, TILE)
    inside = tile * TILE + lanes < width
    base = sums + (tile * rows + row) * (CHANNELS + 1) * COUNT
    channels = ()
    for c in tl.static_range(CHANNELS):
        loaded = _tile(channel_table, c, offset, lanes, inside, X, EXACT).to(tl.float32)
        channels = channels + (loaded,)  # noqa: RUF005 (tuples of this language have no star)
    first = _tile(state_table, 0, offset, lanes, inside, S, EXACT)
    second = _tile(state_table, 1, offset, lanes, inside, S, EXACT)
    for s in range(0, COUNT, 2):
        ahead = tl.minimum(s + 2, COUNT - 2)
        third = _tile(state_table, ahead, offset, lanes, inside, S, EXACT)
        fourth = _tile(state_table, ahead + 1, offset, lanes, inside, S, EXACT)
        a, b = first.to(tl.float32), second.to(tl.float32)
        tl.store(base + CHANNELS * COUNT + s, tl.sum(a * a))
        tl.store(base + CHANNELS * COUNT + s + 1, tl.sum(b * b))
        for c in tl.static_range(CHANNELS):
            to_a, to_b = channels[c] - a, channels[c] - b
            tl.store(base + c * COUNT + s, tl.sum(to_a * to_a))
            tl.store(base + c * COUNT + s + 1, tl.sum(to_b * to_b))
        first, second = third, fourth
