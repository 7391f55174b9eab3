"""What a trainer hands to ``write_contract``, put into shape: lists, batches of one and plain sequences are fine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, cast

from hsforensics.errors import HsfError
from hsforensics.states import State, parse_state

if TYPE_CHECKING:
    from torch import Tensor

_WHERE = "samples"
_REMEDY = "give pairs of token ids [T] and channels [T, H] each, in the order in which fc joins them"


def read_wiring(wiring: str | Sequence[object]) -> tuple[State, ...]:
    """A wiring as a tuple of states, from a sequence of them, or from text such as ``3,31,59``.

    Raises:
        HsfError: ``usage``: no states, or an element that is none.
    """
    found = tuple(map(_state, wiring.split(",") if isinstance(wiring, str) else wiring))
    if not found:
        raise _no_wiring(wiring)
    return found


def shaped_samples(samples: Iterable[object]) -> Iterator[tuple[Tensor, list[Tensor]]]:
    """Samples as tensors: token ids [T] int64, and channels [T, H] each.

    Args:
        samples: Pairs of token ids ([T] or [1, T], a tensor or a list) and channels ([T, H] or [1, T, H] each, a list
            of them or one tensor [n, T, H]).

    Raises:
        HsfError: ``usage``.
    """
    for sample in samples:
        if not isinstance(sample, (tuple, list)) or len(sample) != 2:
            raise HsfError("usage", _WHERE, f"a sample is a pair, got {type(sample).__name__}", _REMEDY)
        ids, channels = sample
        if not isinstance(channels, Iterable):
            raise HsfError("usage", _WHERE, f"channels are a list, got {type(channels).__name__}", _REMEDY)
        yield _token_ids(ids), [_shaped(channel, 2, "a channel") for channel in channels]


def _state(value: object) -> State:
    try:
        state = parse_state(value) if isinstance(value, str) else index(cast("Any", value))
    except (TypeError, ValueError):
        raise _no_wiring(value) from None
    if isinstance(value, bool) or (isinstance(state, int) and state < 0):
        raise _no_wiring(value)
    return state


def _no_wiring(value: object) -> HsfError:
    return HsfError("usage", "wiring", f"{value!r} names no state", "give a list of state numbers, such as [3, 31, 59]")


def _token_ids(value: object) -> Tensor:
    ids = _shaped(value, 1, "token ids")
    if ids.is_floating_point() or ids.is_complex():
        raise HsfError("usage", _WHERE, f"token ids must be integers, got {ids.dtype}", _REMEDY)
    return ids.long()


def _shaped(value: object, axes: int, what: str) -> Tensor:
    """A tensor of so many axes; a batch of one is taken for its only element."""
    import torch

    try:
        x = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise HsfError("usage", _WHERE, f"{what}: no numbers in rows of one length ({error})", _REMEDY) from None
    if x.dim() == axes + 1 and x.shape[0] == 1:
        x = x[0]
    if x.dim() != axes:
        shape = list(x.shape)
        raise HsfError("usage", _WHERE, f"{what} must have {axes} axes for one sequence, got shape {shape}", _REMEDY)
    return x
