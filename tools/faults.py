"""Faults for the evidence engine: one function for each way to break a healthy pair, and what is harmless."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from scenes import Sides, unit
from torch import Tensor

from hsforensics.states import State

FLOOR = 3  # rows at the start that faults leave alone, so that every sample can be paired by its head


def _seeded(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _offsets(sides: Sides, offsets: Sequence[int]) -> None:
    for slot, offset in enumerate(offsets):
        state = sides.scene.truth[slot] + offset
        sides.serve(slot, lambda bank, state=state: bank[state].clone())  # type: ignore[misc]


def _embedding_first(sides: Sides) -> None:
    for slot, state in enumerate((0, *sides.scene.truth[:-1])):
        sides.serve(slot, lambda bank, state=state: bank[state].clone())  # type: ignore[misc]


def _swapped(sides: Sides) -> None:
    for values in sides.served:
        values[0], values[1] = values[1], values[0]


def _missing(sides: Sides) -> None:
    for values in sides.served:
        values.pop()


def _served(make: Callable[[dict[State, Tensor], int], Tensor], slot: int, sides: Sides) -> None:
    state = sides.scene.truth[slot]
    sides.serve(slot, lambda bank: make(bank, state).to(bank[0].dtype))


def _mlp(bank: dict[State, Tensor], state: int) -> Tensor:
    return bank[state].float() - bank[f"mid:{state - 1}"].float()


def _attention(bank: dict[State, Tensor], state: int) -> Tensor:
    return bank[f"mid:{state}"].float() - bank[state].float()


def _partial(bank: dict[State, Tensor], state: int) -> Tensor:
    """What one of two ranks holds: half of the MLP's output on average, and something of its own."""
    branch = _mlp(bank, state)
    own = _seeded(*branch.shape)
    own *= 0.3 * branch.norm(dim=1, keepdim=True) / own.norm(dim=1, keepdim=True)
    return bank[f"mid:{state - 1}"].float() + 0.5 * branch + own


def _shortened(bank: dict[State, Tensor], state: int) -> Tensor:
    """Nearer to the state than to any other, and no state: 30 % of the last branch is missing."""
    return bank[f"mid:{state - 1}"].float() + 0.7 * _mlp(bank, state)


def _rotated(bank: dict[State, Tensor], state: int) -> Tensor:
    width = bank[state].shape[1]
    turned: Tensor = bank[state].float() @ torch.linalg.qr(_seeded(width, width)).Q
    return turned


def _lagged(bank: dict[State, Tensor], state: int, rows: int) -> Tensor:
    return bank[state].roll(rows, dims=0)


def _two_ranks(bank: dict[State, Tensor], state: int) -> Tensor:
    """What two ranks hold, added without taking away the middle state that both have."""
    return bank[state].float() + bank[f"mid:{state - 1}"].float()


def _foreign(slot: int, sides: Sides) -> None:
    """Each request is served the rows of the next one."""
    state = sides.scene.truth[slot]
    banks = sides.scene.banks
    for number, values in enumerate(sides.served):
        other = banks[(number + 1) % len(banks)][state]
        rows = min(len(other), len(values[slot]))
        values[slot] = values[slot].clone()
        values[slot][:rows] = other[:rows]


def _late_rows(slot: int, sides: Sides) -> None:
    """The last 30 % of each dumped channel belong to another sample."""
    for number, values in enumerate(sides.dump):
        start = int(0.7 * len(values[slot]))
        other = sides.scene.banks[(number + 1) % len(sides.dump)][sides.scene.truth[slot]]
        values[slot] = values[slot].clone()
        rows = min(len(values[slot]), len(other)) - start
        values[slot][start : start + rows] = other[start : start + rows].to(values[slot].dtype)


def _image_tokens(slot: int, sides: Sides) -> None:
    """Rows of the most frequent token ids hold the state plus something that is injected later on the other side."""
    common = torch.cat(sides.tokens).bincount().argsort(descending=True)[:2]
    for values, tokens in zip(sides.dump, sides.tokens, strict=True):
        hit = torch.isin(tokens, common)
        wide = values[slot].float()
        extra = _seeded(*wide.shape) * wide.norm(dim=1, keepdim=True) / wide.shape[1] ** 0.5
        values[slot] = torch.where(hit[:, None], wide + extra, wide).to(values[slot].dtype)


def _rows(change: Callable[[Tensor], None], slot: int, sides: Sides) -> None:
    for values in sides.dump:
        values[slot] = values[slot].clone()
        change(values[slot])


def _nan(values: Tensor) -> None:
    values[FLOOR] = float("nan")


def _inf(values: Tensor) -> None:
    values[FLOOR] = float("inf")


def _overflow(slot: int, sides: Sides) -> None:
    for values in sides.dump:
        values[slot] = values[slot].float()
        values[slot][FLOOR, :4] = 1e5


def _narrow(slot: int, sides: Sides) -> None:
    for values in sides.dump:
        values[slot] = values[slot][:, :-8].clone()


def _batch(sides: Sides) -> None:
    """The two first samples hold each other's rows, as many as both have."""
    one, other = sides.dump[:2]
    for slot in range(len(one)):
        rows = min(len(one[slot]), len(other[slot]))
        one[slot], other[slot] = one[slot].clone(), other[slot].clone()
        kept = one[slot][:rows].clone()
        one[slot][:rows], other[slot][:rows] = other[slot][:rows], kept


def _zero(values: Tensor) -> None:
    values[len(values) // 2 :] = 0


def _stuck(values: Tensor) -> None:
    values[len(values) // 2 :] = values[len(values) // 2].clone()


def _doubled(values: Tensor) -> None:
    values[20:30] = values[5:15].clone()


def _stale(slot: int, sides: Sides) -> None:
    """The first rows of every later sample are those of the sample before."""
    for before, values in zip([v[slot] for v in sides.dump], sides.dump[1:], strict=False):
        rows = min(len(before), len(values[slot])) // 2
        values[slot] = values[slot].clone()
        values[slot][FLOOR:rows] = before[FLOOR:rows]


def _tail(slot: int, sides: Sides) -> None:
    for values in sides.dump:
        values[slot] = values[slot][8:].clone()


def _woven(sides: Sides) -> None:
    for values in sides.dump:
        joined = torch.stack(values, dim=2).flatten(1)  # [T, H * n], value by value
        values[:] = [part.clone() for part in joined.chunk(len(values), dim=1)]


def _wrong_width(sides: Sides) -> None:
    """Four states read as three channels of another width."""
    for values in sides.dump:
        values[:] = [part.clone() for part in torch.cat(values, dim=1).chunk(3, dim=1)]


def _mixed_set(sides: Sides) -> None:
    for values, bank in list(zip(sides.dump, sides.scene.banks, strict=True))[-1:]:
        for slot, state in enumerate(sides.scene.truth):
            values[slot] = bank[state + 1].to(values[slot].dtype)


def _equal_channels(sides: Sides) -> None:
    for values in sides.dump:
        values[0] = values[1].clone()


def _no_mask(sides: Sides) -> None:
    sides.masks = [torch.zeros(len(tokens), dtype=torch.int64) for tokens in sides.tokens]


def _short_mask(sides: Sides) -> None:
    sides.masks = [torch.ones(len(tokens) - 2, dtype=torch.int64) for tokens in sides.tokens]


@dataclass(frozen=True)
class Fault:
    """One way to break a healthy pair.

    Attributes:
        name: For tables.
        apply: Breaks the sides; slot faults take the slot first.
        codes: Finding codes, any of which names it.
        slots: How many slots it needs for itself: 0 for faults of whole sides, 1 for one slot (the one given).
        side: Where it acts.
    """

    name: str
    apply: Callable[..., None]
    codes: tuple[str, ...]
    slots: int
    side: str

    def inject(self, sides: Sides, slot: int = 1) -> None:
        """Break the sides, at a slot if it is a fault of one slot."""
        if self.slots:
            self.apply(slot, sides)
        else:
            self.apply(sides)


def _whole(name: str, apply: Callable[[Sides], None], *codes: str, side: str = "served") -> Fault:
    return Fault(name, apply, codes, 0, side)


def _slot(name: str, apply: Callable[[int, Sides], None], *codes: str, side: str = "served") -> Fault:
    return Fault(name, apply, codes, 1, side)


FAULTS: tuple[Fault, ...] = (
    _whole("every state one deeper", partial(_offsets, offsets=(1, 1, 1)), "offset-uniform"),
    _whole("every state one shallower", partial(_offsets, offsets=(-1, -1, -1)), "offset-uniform"),
    _whole("one state one deeper", partial(_offsets, offsets=(0, 0, 1)), "offset-mixed"),
    _whole("embedding first", _embedding_first, "offset-mixed", "offset-uniform"),
    _whole("two states swapped", _swapped, "channel-order"),
    _whole("last state not delivered", _missing, "channel-count"),
    _slot("state after an RMS norm", partial(_served, lambda bank, state: unit(bank[state])), "norm-applied"),
    _slot("MLP branch without residual", partial(_served, _mlp), "residual-missing"),
    _slot("attention branch without residual", partial(_served, _attention), "residual-missing"),
    _slot("part of the MLP's output", partial(_served, _shortened), "partial-sum"),
    _slot("sum of one rank only", partial(_served, _partial), "partial-sum"),
    _slot("state times 1.5", partial(_served, lambda bank, state: bank[state].float() * 1.5), "scaled"),
    _slot("state rotated", partial(_served, _rotated), "rotated"),
    _slot("two ranks added, residual counted twice", partial(_served, _two_ranks), "partial-sum"),
    _slot("rows one late", partial(_served, partial(_lagged, rows=1)), "rows-lagged"),
    _slot("rows two late", partial(_served, partial(_lagged, rows=2)), "rows-lagged"),
    _slot("rows one early", partial(_served, partial(_lagged, rows=-1)), "rows-lagged"),
    _slot("rows of another request", _foreign, "rows-foreign"),
    _slot("buffer of a later layer", partial(_served, lambda bank, state: bank[state + 2]), "offset-mixed"),
    _slot("late rows of another sample", _late_rows, "rows-disagree", "rows-foreign", "rows-stale", side="dump"),
    _slot("image tokens differ", _image_tokens, "rows-disagree", side="dump"),
    _slot("NaN row", partial(_rows, _nan), "channel-unreadable", side="dump"),
    _slot("Inf row", partial(_rows, _inf), "channel-unreadable", side="dump"),
    _slot("channel of another width", _narrow, "channel-unreadable", side="dump"),
    _slot("half of the rows zero", partial(_rows, _zero), "rows-constant", side="dump"),
    _slot("one row repeated", partial(_rows, _stuck), "rows-constant", side="dump"),
    _slot("rows of other tokens repeated", partial(_rows, _doubled), "rows-duplicate", side="dump"),
    _slot("rows of the sample before", _stale, "rows-stale", side="dump"),
    _slot("only the last rows (cached prefix)", _tail, "rows-short", side="dump"),
    _whole("joined tensor cut along the wrong axis", _woven, "split-width", side="dump"),
    _whole("joined tensor cut at the wrong width", _wrong_width, "split-width", side="dump"),
    _whole("one file made by another rule", _mixed_set, "set-mixed", side="dump"),
    _whole("rows of two samples exchanged in the batch", _batch, "rows-disagree", "rows-foreign", side="dump"),
    _whole("two channels are one buffer", _equal_channels, "channels-equal", side="dump"),
    _whole("loss mask all zero", _no_mask, "mask-empty", side="dump"),
    _whole("loss mask too short", _short_mask, "mask-length", side="dump"),
)
"""Every fault of the suite."""


def _leading(sides: Sides) -> None:
    """The dump has one more token in front; its row belongs to nothing."""
    for number, values in enumerate(sides.dump):
        sides.tokens[number] = torch.cat([torch.tensor([3]), sides.tokens[number]])
        values[:] = [torch.cat([channel[:1] * 0.5, channel]) for channel in values]


def _padded(sides: Sides) -> None:
    """The dump goes on with eight rows of one token."""
    for number, values in enumerate(sides.dump):
        sides.tokens[number] = torch.cat([sides.tokens[number], torch.full((8,), 2)])
        extra = [_seeded(8, channel.shape[1], seed=slot).to(channel.dtype) for slot, channel in enumerate(values)]
        values[:] = [torch.cat(both) for both in zip(values, extra, strict=True)]


def _drift(sides: Sides) -> None:
    """The error of another kernel, which grows with depth."""
    for values in sides.dump:
        for slot, share in enumerate((0.003, 0.01, 0.03)):
            wide = values[slot].float()
            error = _seeded(*wide.shape, seed=slot) * wide.norm(dim=1, keepdim=True) / wide.shape[1] ** 0.5
            values[slot] = (wide + share * error).to(values[slot].dtype)


HARMLESS: tuple[Fault, ...] = (
    _whole("one more token in front (BOS)", _leading, "alignment-used", side="dump"),
    _whole("padded at the end", _padded, "alignment-used", side="dump"),
    _whole("numeric drift with depth", _drift, "numeric-drift", side="dump"),
    _slot("a row beyond fp16's range", _overflow, "values-overflow", side="dump"),
)
"""What is no fault of the wiring: the verdict stays green, and none of the findings is an error."""

RESHAPING = frozenset(
    fault.name for fault in FAULTS if {"rows-short", "split-width"} & {*fault.codes} or fault.apply is _narrow
)
"""Faults that cut rows or widths: two of them at once cannot be told apart."""
