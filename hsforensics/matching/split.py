"""Channels cut out of a joined tensor at the wrong width, or along the wrong axis: join them and cut again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def other_splits(channels: Sequence[Tensor], hidden_size: int) -> Iterator[tuple[str, tuple[Tensor, ...]]]:
    """Other ways to read the same values as channels of width H; the way they are read now is left out.

    Args:
        channels: [T, H'] each, all of the same T.
        hidden_size: H.

    Yields:
        In words, and the channels [T, H].
    """
    import torch

    joined = torch.cat(list(channels), dim=1)  # [T, n * H]
    rows, total = joined.shape
    if total % hidden_size or not rows:
        return
    count = total // hidden_size
    widths = {values.shape[1] for values in channels}
    if widths != {hidden_size}:
        yield (
            f"{count} states of width {hidden_size} joined one after another",
            tuple(joined.view(rows, count, hidden_size).unbind(dim=1)),
        )
    if count > 1:
        woven = joined.view(rows, hidden_size, count)
        yield f"{count} states of width {hidden_size} woven value by value", tuple(woven.unbind(dim=2))
