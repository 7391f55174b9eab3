"""Tensor-parallel ranks that serve different values: the sum over all of them tells what each holds a share of."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsforensics.capture.manifest import ManifestHeader, RequestTensors
from hsforensics.capture.store import open_capture, write_capture
from hsforensics.errors import HsfError
from hsforensics.flows.compare import compare
from hsforensics.results import CompareResult
from hsforensics.states import POSTNORM, Finding, State
from tests.flows.test_compare_more import write_rank
from tests.world import World, make_world, write_dump

TRUTH: tuple[State, ...] = (3, 6, 9, POSTNORM)


@pytest.fixture(scope="module")
def world() -> World:
    return make_world()


@pytest.fixture(scope="module")
def dump(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dump(world, tmp_path_factory.mktemp("ranks") / "dump", TRUTH)


Spoil = Callable[[int, list[list[Tensor]]], None]
"""Changes what the ranks serve in a request: its number, and rank by rank the slots [T, H]."""


def merged(
    world: World, folder: Path, shares: tuple[float, ...], *, middle: bool = True, spoil: Spoil | None = None
) -> Path:
    """One capture of all ranks: slot 1 holds each rank's share of the branch that leads to state 6."""
    captures = [open_capture(write_rank(world, folder / f"rank{i}", share)) for i, share in enumerate(shares)]
    first = captures[0].manifest
    states = tuple(state for state in first.states if middle or state != "mid:5")
    requests = []
    for number, entries in enumerate(zip(*(capture.requests for capture in captures), strict=True)):
        held = [capture.read(entry) for capture, entry in zip(captures, entries, strict=True)]
        slots = [[channel.values for channel in one.served] for one in held]
        if spoil:
            spoil(number, slots)
        served = [tuple(values) for values in slots]
        bank = {state: held[0].state(state) for state in states}
        requests.append(RequestTensors(held[0].token_ids, held[0].positions, bank, served[0], ranks=tuple(served[1:])))
    names = {name: getattr(first, name) for name in ("kind", "engine", "engine_version", "dtype", "device", "served")}
    header = replace(first_header(captures[0].path), states=states, ranks=len(shares), **names)
    write_capture(folder / "all", header, requests)
    return folder / "all"


def first_header(path: Path) -> ManifestHeader:
    manifest = open_capture(path).manifest
    return ManifestHeader(**{name: getattr(manifest, name) for name in ManifestHeader.__dataclass_fields__})


def of_code(result: CompareResult, code: str) -> list[Finding]:
    return [item for item in result.findings if item.code == code]


@pytest.mark.parametrize("shares", [(0.4, 0.6), (0.1, 0.2, 0.7), (-0.5, 0.3, 0.8, 0.4)], ids=len)
def test_one_capture_of_all_ranks_names_the_state_that_was_not_reduced(
    world: World, dump: Path, tmp_path: Path, shares: tuple[float, ...]
) -> None:
    result = compare(dump, merged(world, tmp_path, shares))
    (found,) = of_code(result, "partial-sum")
    assert found.where == "served.1"
    assert f"the {len(shares)} ranks together hold state 6" in found.message
    assert (result.verdict, result.served_wiring) == ("misaligned", (3, None, 9))
    assert [item.code for item in result.findings if item.where == "served.1"] == ["partial-sum"]
    (record,) = [item for item in result.channels if item.label == "served.1"]
    assert record.explanation == f"a rank's share: the {len(shares)} ranks together hold state 6"


def test_a_capture_of_another_width_is_refused_as_a_rank(world: World, dump: Path, tmp_path: Path) -> None:
    one = write_rank(world, tmp_path / "one", 0.4)
    narrow = RequestTensors(torch.arange(4), torch.arange(4), {0: torch.ones(4, 8)}, (torch.ones(4, 8),) * 3)
    write_capture(tmp_path / "narrow", replace(first_header(one), hidden_size=8, states=(0,)), [narrow])
    with pytest.raises(HsfError, match="width 8") as caught:
        compare(dump, one, ranks=(tmp_path / "narrow",))
    assert caught.value.code == "usage"


def test_ranks_that_agree_say_nothing_even_when_both_are_wrong(world: World, dump: Path, tmp_path: Path) -> None:
    result = compare(dump, merged(world, tmp_path, (0.5, 0.5)))
    assert not of_code(result, "ranks-disagree")
    assert not [item for item in of_code(result, "partial-sum") if "together" in item.message]
    assert result.verdict != "aligned"


def test_ranks_that_all_hold_the_whole_state_are_aligned(world: World, dump: Path, tmp_path: Path) -> None:
    assert compare(dump, merged(world, tmp_path, (1.0, 1.0))).verdict == "aligned"


def test_a_rank_that_is_wrong_is_seen_though_the_first_serves_the_state(
    world: World, dump: Path, tmp_path: Path
) -> None:
    result = compare(dump, merged(world, tmp_path, (1.0, 0.4)))
    (found,) = of_code(result, "ranks-disagree")
    assert (found.where, found.severity) == ("served.1", "error")
    assert "their sum is no known state" in found.message
    assert result.verdict != "aligned"


def test_without_middle_states_ranks_that_differ_are_told_but_no_sum(world: World, dump: Path, tmp_path: Path) -> None:
    result = compare(dump, merged(world, tmp_path, (0.4, 0.6), middle=False))
    (found,) = of_code(result, "ranks-disagree")
    assert "no middle states" in found.message


def late_rows(value: float) -> Spoil:
    def spoil(_number: int, slots: list[list[Tensor]]) -> None:
        slots[1][0][-len(slots[1][0]) // 3 :] = value

    return spoil


def last_request(number: int, slots: list[list[Tensor]]) -> None:
    if number == 2:
        slots[1][2] = slots[1][2] * 1.01


def one_rounding_too_many(_number: int, slots: list[list[Tensor]]) -> None:
    for values in slots[0], slots[1]:
        values[:] = [value.bfloat16() for value in values]
    slots[1][2] = slots[1][2] * 1.01


@pytest.mark.parametrize(
    ("spoil", "where"),
    [
        (late_rows(float("nan")), "served.0"),
        (late_rows(0.0), "served.0"),
        (last_request, "served.2"),
        (one_rounding_too_many, "served.2"),
    ],
    ids=["NaN in a third of the rows", "zero in a third of the rows", "one request only", "bf16, 1 %"],
)
def test_a_rank_that_differs_anywhere_is_told_and_never_aligned(
    world: World, dump: Path, tmp_path: Path, spoil: Spoil, where: str
) -> None:
    result = compare(dump, merged(world, tmp_path, (1.0, 1.0), spoil=spoil))
    assert [item.where for item in of_code(result, "ranks-disagree")] == [where]
    assert result.verdict != "aligned"


def test_a_rank_that_holds_nothing_of_a_branch_is_no_rank_of_an_aligned_engine(
    world: World, dump: Path, tmp_path: Path
) -> None:
    result = compare(dump, merged(world, tmp_path, (1.0, 0.0)))
    assert result.verdict == "misaligned"
    assert not of_code(result, "wiring-right")


def test_a_rank_with_fewer_slots_is_refused(world: World, dump: Path, tmp_path: Path) -> None:
    one = write_rank(world, tmp_path / "one", 0.4)
    opened = open_capture(one)
    short = []
    for entry in opened.requests:
        request = opened.read(entry)
        states = {state: request.state(state) for state in request.states}
        short.append(RequestTensors(request.token_ids, request.positions, states, (request.served[0].values,)))
    write_capture(tmp_path / "short", replace(first_header(one), served=1), short)
    with pytest.raises(HsfError, match="1 served slots") as caught:
        compare(dump, one, ranks=(tmp_path / "short",))
    assert caught.value.code == "usage"


def test_nan_on_another_rank_never_passes(world: World, dump: Path, tmp_path: Path) -> None:
    result = compare(dump, merged(world, tmp_path, (1.0, float("nan"))))
    assert [item.where for item in of_code(result, "ranks-disagree")] == ["served.1"]
    assert result.verdict != "aligned"


def test_an_older_capture_without_the_key_has_one_rank(world: World, tmp_path: Path) -> None:
    path = write_rank(world, tmp_path / "old", 1.0)
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["ranks"]
    (path / "manifest.json").write_text(json.dumps(manifest))
    opened = open_capture(path)
    assert (opened.manifest.ranks, opened.read(opened.requests[0]).ranks) == (1, ())
    assert torch.isfinite(opened.read(opened.requests[0]).served[1].values).all()
