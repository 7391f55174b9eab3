"""8-bit floats: storage only, torch computes next to nothing on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def computable(values: Tensor) -> Tensor:
    """An 8-bit float tensor in fp32, without loss; any other tensor as it is."""
    return values.float() if values.is_floating_point() and values.element_size() == 1 else values
