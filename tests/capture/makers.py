"""Small captures out of random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from hsforensics.capture.store import ManifestHeader, RequestTensors, by_depth
from hsforensics.errors import HsfError
from hsforensics.states import State

STATES: tuple[State, ...] = (0, 1, "mid:1", 2, "postnorm")


def header(
    states: Sequence[State] = STATES, hidden_size: int = 4, served: int = 0, ranks: int = 1, layers: int = 2
) -> ManifestHeader:
    return ManifestHeader(
        kind="live" if served else "reference",
        engine="an engine",
        engine_version="1.0",
        dtype="bfloat16",
        device="cpu",
        target_path="a/target",
        target_wrapper="Wrapper",
        target_inner="Inner",
        target_config_sha256="0" * 64,
        layers=layers,
        hidden_size=hidden_size,
        states=by_depth(states),
        served=served,
        ranks=ranks,
    )


def request(
    rows: int,
    head: ManifestHeader,
    dtype: torch.dtype = torch.bfloat16,
    seed: int = 0,
    fc_input: bool = False,
) -> RequestTensors:
    generator = torch.Generator().manual_seed(seed)

    def draw(width: int) -> torch.Tensor:
        return torch.randn(rows, width, generator=generator).to(dtype)

    return RequestTensors(
        token_ids=torch.randint(0, 1 << 40, (rows,), generator=generator),
        positions=torch.arange(rows),
        states={state: draw(head.hidden_size) for state in head.states},
        served=tuple(draw(head.hidden_size) for _ in range(head.served)),
        ranks=tuple(tuple(draw(head.hidden_size) for _ in range(head.served)) for _ in range(1, head.ranks)),
        fc_input=draw(head.hidden_size * head.served) if fc_input else None,
    )


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(HsfError) as caught:
        call()
    return caught.value.code


def names_beside(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir() if file != path)
