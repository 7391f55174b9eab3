"""The fused kernel says what plain torch says. Needs a GPU, or triton's interpreter (TRITON_INTERPRET=1)."""

import os

import pytest
import torch

from hsforensics.matching.distance import distance_tables, relative_distance
from hsforensics.matching.distance_cuda import fused_tables, usable

DTYPES = [torch.bfloat16, torch.float16, torch.float32]


def device() -> str:
    """``cuda``, or ``cpu`` under the interpreter; otherwise the test is skipped."""
    if torch.cuda.is_available():
        return "cuda"
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.importorskip("triton")
        return "cpu"
    pytest.skip("needs a CUDA device, or triton with TRITON_INTERPRET=1")


def tensors(count: int, rows: int, width: int, dtype: torch.dtype, where: str) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(count + width)
    return [torch.randn(rows, width, generator=generator).to(dtype).to(where) for _ in range(count)]


@pytest.mark.gpu
@pytest.mark.parametrize("width", [64, 300, 1024, 1536])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_kernel_agrees_with_plain_torch(width: int, dtype: torch.dtype) -> None:
    where = device()
    channels, states = tensors(3, 9, width, dtype, where), tensors(5, 9, width, torch.bfloat16, where)
    states[2] = channels[1].to(torch.bfloat16)
    states[3][4, 5] = float("nan")
    found = fused_tables(channels, states, tile=256)
    for table, values in zip(found, channels, strict=True):
        for place, state in enumerate(states):
            torch.testing.assert_close(table[:, place], relative_distance(values, state), equal_nan=True)
    if dtype == torch.bfloat16:
        assert bool((found[1][:, 2] == 0).all())


@pytest.mark.gpu
def test_near_equal_rows_lose_nothing_to_cancellation() -> None:
    where = device()
    (state,) = tensors(1, 8, 512, torch.float32, where)
    near = state * (1 + 1e-5)
    torch.testing.assert_close(
        fused_tables([near], [state])[0], torch.full((8, 1), 1e-5, device=where), rtol=0.05, atol=0
    )


def test_what_the_kernel_cannot_take_goes_to_plain_torch() -> None:
    values = torch.randn(4, 8)
    assert not usable([values], [values])
    assert not usable([], [values])
    assert distance_tables([], [values]) == []
    (table,) = distance_tables([values], iter([values, values * 2]))
    torch.testing.assert_close(table, torch.tensor([0.0, 0.5]).repeat(4, 1))
