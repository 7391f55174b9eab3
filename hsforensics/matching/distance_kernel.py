"""The Triton kernel of ``hsforensics.matching.distance_cuda``; imported only where triton is installed."""

# mypy: ignore-errors

import triton
import triton.language as tl


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

    ``sums`` is [tiles, rows, CHANNELS + 1, COUNT] fp32; the last of the ``CHANNELS + 1`` is the state's own.
    ``EXACT``: the width is a whole number of tiles, so no load needs a mask.
    """
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1).to(tl.int64)
    columns = tile * TILE + tl.arange(0, TILE)
    inside = columns < width
    place = row * width + columns
    base = sums + (tile * rows + row) * (CHANNELS + 1) * COUNT
    channels = ()
    for c in tl.static_range(CHANNELS):
        start = tl.multiple_of(tl.load(channel_table + c), 16).to(tl.pointer_type(X))
        if EXACT:  # noqa: SIM108 (decided when compiled)
            loaded = tl.load(start + place)
        else:
            loaded = tl.load(start + place, mask=inside, other=0.0)
        channels = channels + (loaded,)  # noqa: RUF005 (tuples of this language have no star)
    for s in range(COUNT):
        start = tl.multiple_of(tl.load(state_table + s), 16).to(tl.pointer_type(S))
        if EXACT:
            state = tl.load(start + place, eviction_policy="evict_first").to(tl.float32)
        else:
            state = tl.load(start + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(base + CHANNELS * COUNT + s, tl.sum(state * state))
        for c in tl.static_range(CHANNELS):
            gap = channels[c].to(tl.float32) - state
            tl.store(base + c * COUNT + s, tl.sum(gap * gap))
