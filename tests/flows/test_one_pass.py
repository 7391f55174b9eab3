"""A live capture's served channels and its bank are one pass: near a state is not enough there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsforensics.capture.manifest import ManifestHeader, RequestTensors
from hsforensics.capture.store import open_capture, write_capture
from hsforensics.flows.compare import compare
from hsforensics.results import CompareResult
from hsforensics.states import POSTNORM, State
from tests.world import World, make_world, write_bank, write_dump

TRUTH: tuple[State, ...] = (3, 6, 9, POSTNORM)
Blend = Callable[[dict[State, Tensor]], Tensor]


@pytest.fixture(scope="module")
def world() -> World:
    return make_world()


def judged(world: World, folder: Path, blend: Blend) -> CompareResult:
    """Compare a right dump with a capture whose slot 1 serves the blend."""
    return compare(write_dump(world, folder / "dump", TRUTH), write_served(world, folder / "live", blend))


def write_served(world: World, path: Path, blend: Blend) -> Path:
    plain = open_capture(write_bank(world, path.with_name("plain"), served=(3, 6, 9)))
    names = ManifestHeader.__dataclass_fields__
    header = replace(ManifestHeader(**{name: getattr(plain.manifest, name) for name in names}), kind="live")
    requests = []
    for entry in plain.requests:
        request = plain.read(entry)
        bank = {state: request.state(state) for state in request.states}
        served = (bank[3], blend(bank), bank[9])
        requests.append(RequestTensors(request.token_ids, request.positions, bank, served))
    write_capture(path, header, requests)
    return path


def some_rows(bank: dict[State, Tensor]) -> Tensor:
    values = bank[6].clone()
    values[::4] = bank[6].lerp(bank[5], 0.3)[::4]
    return values


@pytest.mark.parametrize(
    "blend",
    [
        lambda bank: bank[6].lerp(bank[5], 0.1),
        lambda bank: bank[6].lerp(bank[1], 0.1),
        lambda bank: bank[6] + 0.1 * bank[0],
        lambda bank: bank[6] * 0.95,
        lambda bank: 0.9 * bank[6] + 0.05 * bank[3] + 0.05 * bank[9],
        some_rows,
    ],
    ids=[
        "a tenth of a neighbour",
        "a tenth of a far state",
        "the embedding again",
        "95 %",
        "three states",
        "some rows",
    ],
)
def test_what_is_served_must_be_in_its_own_bank(world: World, tmp_path: Path, blend: Blend) -> None:
    result = judged(world, tmp_path, blend)
    assert result.verdict != "aligned"
    assert {"served.1"} <= {item.where for item in result.findings if item.severity == "error"}


def test_one_rounding_is_no_difference(world: World, tmp_path: Path) -> None:
    assert judged(world, tmp_path, lambda bank: bank[6] * (1 + torch.finfo(torch.float32).eps)).verdict == "aligned"
