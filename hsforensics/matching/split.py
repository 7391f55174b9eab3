"""Channels cut out of a joined tensor at the wrong width, place or axis: cut them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

CORRELATED_ROWS = 16
"""Rows that are enough to find where a state begins in a joined row."""

LEAST_COLUMNS = 16
"""Rests of a state that are narrower than this are not compared."""


@dataclass(frozen=True)
class Piece:
    """What would be a state, or a part of one: ``values`` [T, W] of the columns from ``column`` on."""

    values: Tensor
    column: int = 0


Split = tuple[str, tuple[Piece, ...]]
"""A way to read a joined tensor, in words, and its pieces; at least one of them is a whole state."""


def other_splits(channels: Sequence[Tensor], hidden_size: int, states: Iterable[Tensor]) -> Iterator[Split]:
    """Other ways to read the same values as states of width H; the way they are read now is left out.

    Args:
        channels: [T, H'] each, all of the same T.
        hidden_size: H.
        states: The states of these rows, [T, H] each, which tell where one begins; read only if it comes to that.
    """
    import torch

    joined = torch.cat(list(channels), dim=1)  # [T, n * H']
    rows, total = joined.shape
    if not rows or total < hidden_size:
        return
    count = total // hidden_size
    if {values.shape[1] for values in channels} != {hidden_size}:
        yield _with_rests(joined, hidden_size, 0)
    if count > 1 and total % hidden_size == 0:
        woven = joined.view(rows, hidden_size, count)
        words = f"{count} states of width {hidden_size} woven value by value"
        yield words, tuple(Piece(values) for values in woven.unbind(dim=2))
    start = start_of_states(joined, states, hidden_size)
    if start and total % hidden_size == 0:
        words = f"{count} states of width {hidden_size} joined one after another and rolled by {start} values"
        yield words, tuple(Piece(values) for values in joined.roll(-start, dims=1).chunk(count, dim=1))
    if start and start + hidden_size <= total:
        yield _with_rests(joined, hidden_size, start)


def _with_rests(joined: Tensor, width: int, start: int) -> Split:
    """States one after another from a column on, and the rests of two more before and behind them."""
    count, rest = divmod(joined.shape[1] - start, width)
    head = [Piece(joined[:, :start], width - start)] if start >= LEAST_COLUMNS else []
    whole = [Piece(values) for values in joined[:, start : start + count * width].chunk(count, dim=1)]
    tail = [Piece(joined[:, joined.shape[1] - rest :])] if rest >= LEAST_COLUMNS else []
    words = f"{count} state{'s'[: count != 1]} of width {width} joined one after another"
    words += f", after the last {start} values of one" if start else ""
    words += f", and the first {rest} values of one more" if rest else ""
    return words, (*head, *whole, *tail)


def start_of_states(joined: Tensor, states: Iterable[Tensor], hidden_size: int) -> int:
    """The column, less than H, at which some state begins in joined rows [T, N]: where the correlation is largest."""
    import torch

    rows = joined[:CORRELATED_ROWS].float().nan_to_num(0.0, 0.0, 0.0)  # [R, N]
    size = rows.shape[1]
    spectrum = torch.fft.rfft(rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-30))
    best, place = 0.0, 0
    for state in states:
        own = state[: len(rows)].float().nan_to_num(0.0, 0.0, 0.0)
        own = own / own.norm(dim=1, keepdim=True).clamp_min(1e-30)
        found = torch.fft.irfft(spectrum * torch.fft.rfft(own, n=size).conj(), n=size).sum(dim=0)  # [N]
        if float(found.max()) > best:
            best, place = float(found.max()), int(found.argmax())
    return place % hidden_size
