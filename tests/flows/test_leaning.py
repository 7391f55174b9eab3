"""Dumps that lie on the way to another state, in whatever rows and files, are no match."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsforensics.flows.compare import compare
from hsforensics.states import POSTNORM, State
from tests.world import World, make_world, write_bank, write_dump

TRUTH: tuple[State, ...] = (3, 6, 9, POSTNORM)


@pytest.fixture(scope="module")
def world() -> World:
    return make_world()


def blended(world: World, dump: Path, rows: slice, files: slice) -> Path:
    """In some rows of some files, channel 1 is two fifths of the way from state 6 to state 5."""
    for number in range(len(world.banks))[files]:
        file = dump / f"data_{number}.pt"
        sample = torch.load(file, weights_only=True)
        values: Tensor = sample["hidden_states"][1]
        there = world.banks[number][5].to(values.dtype)
        values[rows] = values.lerp(there, 0.4)[rows]
        torch.save(sample, file)
    return dump


@pytest.mark.parametrize(
    ("rows", "files"),
    [(slice(None), slice(None)), (slice(16, None), slice(None)), (slice(None), slice(1, None))],
    ids=["everywhere", "late rows", "all files but the first"],
)
def test_a_channel_that_leans_is_not_aligned(world: World, tmp_path: Path, rows: slice, files: slice) -> None:
    dump = blended(world, write_dump(world, tmp_path / "dump", TRUTH), rows, files)
    result = compare(dump, write_bank(world, tmp_path / "live", served=(3, 6, 9)))
    assert result.verdict != "aligned"
    (record,) = [item for item in result.channels if item.side == "dump" and item.index == 1]
    assert record.identity == "ambiguous" or record.explanation is not None


def test_the_same_without_blending_is_aligned(world: World, tmp_path: Path) -> None:
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    assert compare(dump, write_bank(world, tmp_path / "live", served=(3, 6, 9))).verdict == "aligned"
