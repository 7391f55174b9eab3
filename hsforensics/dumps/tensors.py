"""What every reader demands of a tensor that a stranger wrote. Wrong row counts are not its business."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hsforensics.dumps.layout import CODE, REMEDY
from hsforensics.errors import HsfError

if TYPE_CHECKING:
    from torch import Tensor

_MAX_REPEAT = 64  # bytes that a tensor may show for each byte stored: strides of 0 repeat rows for free


def channel_values(found: object, file: Path, label: str) -> Tensor:
    """A channel as [T, H], from [T, H] or [1, T, H]; detached, in the producer's floating dtype.

    Raises:
        HsfError: ``dump-unreadable``, naming file and channel.
    """
    values = _plain(found, file, label)
    if values.dim() == 3 and values.shape[0] == 1:
        values = values[0]
    if values.dim() != 2 or not values.is_floating_point():
        raise _wrong(file, label, "a floating-point tensor [tokens, hidden size]", values)
    return values


def integer_row(found: object, file: Path, label: str) -> Tensor:
    """Token ids or a mask as [T] int64, from [T] or [1, T] of any integer or boolean dtype.

    Raises:
        HsfError: ``dump-unreadable``, naming file and channel.
    """
    import torch

    row = _plain(found, file, label)
    if row.dim() == 2 and row.shape[0] == 1:
        row = row[0]
    if row.dim() != 1 or row.is_floating_point() or row.is_complex():
        raise _wrong(file, label, "an integer tensor [tokens]", row)
    return row.to(torch.int64)


def _plain(found: object, file: Path, label: str) -> Tensor:
    """A dense, unquantised tensor in memory that shows no more than it stores (within reason)."""
    import torch

    if not isinstance(found, torch.Tensor):
        message = f"{label} must be a tensor, got {type(found).__name__}"
        raise HsfError(CODE, file, message, REMEDY)
    if found.layout != torch.strided or found.is_quantized or found.is_meta:
        raise HsfError(CODE, file, f"{label} must be a dense tensor, got {_kind(found)}", REMEDY)
    if found.nbytes > _MAX_REPEAT * (found.untyped_storage().nbytes() + 1024):
        message = f"{label} shows {found.nbytes} bytes but stores {found.untyped_storage().nbytes()}"
        raise HsfError(CODE, file, message, REMEDY)
    return found.detach()


def _wrong(file: Path, label: str, wanted: str, got: Tensor) -> HsfError:
    return HsfError(CODE, file, f"{label} must be {wanted}, got {got.dtype} {list(got.shape)}", REMEDY)


def _kind(tensor: Tensor) -> str:
    return "a quantised one" if tensor.is_quantized else "one without data" if tensor.is_meta else str(tensor.layout)
