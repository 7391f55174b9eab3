"""Tensors that were cut at the wrong width, place or axis, on either side: told by what the pieces hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsforensics.capture.manifest import ManifestHeader, RequestTensors
from hsforensics.capture.store import open_capture, write_capture
from hsforensics.flows.compare import compare
from hsforensics.results import CompareResult
from hsforensics.states import POSTNORM, Finding, State
from tests.world import HIDDEN, World, make_world, write_bank, write_dump

TRUTH: tuple[State, ...] = (3, 6, 9, POSTNORM)
Cut = Callable[[list[Tensor]], list[Tensor]]


def at_width(width: int, count: int) -> Cut:
    """Channels of this width, cut one after another out of the joined tensor."""
    return lambda states: list(torch.cat(states, 1)[:, : width * count].split(width, 1))


def rolled(by: int) -> Cut:
    return lambda states: list(torch.cat(states, 1).roll(by, 1).split(HIDDEN, 1))


def begun_late(by: int) -> Cut:
    return lambda states: list(torch.cat(states, 1)[:, by:].split(HIDDEN, 1))


def woven(states: list[Tensor]) -> list[Tensor]:
    return list(torch.stack(states, dim=2).flatten(1).split(HIDDEN, 1))


def of(result: CompareResult) -> list[Finding]:
    return [item for item in result.findings if item.code == "split-width"]


def write_cut(world: World, path: Path, cut: Cut, states: tuple[State, ...] = TRUTH) -> Path:
    write_dump(world, path, states)
    for file in path.glob("data_*.pt"):
        sample = torch.load(file, weights_only=True)
        sample["hidden_states"] = [values.contiguous() for values in cut(sample["hidden_states"])]
        torch.save(sample, file)
    return path


@pytest.mark.parametrize(
    ("cut", "wiring"),
    [
        (at_width(64, 3), "[3, 6, 9, postnorm]"),
        (at_width(40, 4), "[3, 6, 9, postnorm]"),  # the last 32 of 192 values are lost
        (at_width(42, 4), "[3, 6, 9, postnorm]"),
        (at_width(38, 4), "[3, 6, 9]"),  # too little is left of postnorm to be named
        (at_width(90, 1), "[3, 6]"),
        (begun_late(10), "[3, 6, 9, postnorm]"),
        (rolled(10), "[3, 6, 9, postnorm]"),
        (rolled(1), "[3, 6, 9, postnorm]"),
        (rolled(-1), "[6, 9, postnorm, 3]"),
        (woven, "[3, 6, 9, postnorm]"),
    ],
)
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_dump_that_was_cut_wrongly_is_named_with_its_states(
    tmp_path: Path, cut: Cut, wiring: str, noise: float
) -> None:
    world = make_world()
    dump = write_cut(world, tmp_path / "dump", cut)
    (found,) = of(compare(dump, write_bank(world, tmp_path / "bank", noise=noise)))
    assert (found.where, found.severity) == ("dump", "error")
    assert f": {wiring}, cut wrongly" in found.message


@pytest.mark.parametrize(
    ("cut", "wiring"), [(rolled(10), "[3, 6, 9]"), (rolled(-20), "[6, 9, 3]"), (woven, "[3, 6, 9]")]
)
def test_served_states_that_were_cut_wrongly_are_named_too(tmp_path: Path, cut: Cut, wiring: str) -> None:
    world = make_world()
    plain = open_capture(write_bank(world, tmp_path / "plain", served=(3, 6, 9)))
    requests = []
    for entry in plain.requests:
        held = plain.read(entry)
        served = tuple(values.contiguous() for values in cut([channel.values for channel in held.served]))
        states = {state: held.state(state) for state in world.states}
        requests.append(RequestTensors(held.token_ids, torch.arange(len(held.token_ids)), states, served))
    fields = {name: getattr(plain.manifest, name) for name in ManifestHeader.__dataclass_fields__}
    write_capture(tmp_path / "live", ManifestHeader(**fields), requests)
    result = compare(write_dump(world, tmp_path / "dump", TRUTH), tmp_path / "live")
    (found,) = of(result)
    assert (found.where, result.trained_wiring) == ("served", (3, 6, 9))
    assert f"the engine serves 3 states of width {HIDDEN}" in found.message
    assert f": {wiring}, cut wrongly" in found.message
    assert result.verdict != "aligned"


def test_what_is_no_state_at_all_is_no_wrong_cut(tmp_path: Path) -> None:
    world = make_world()
    dump = write_cut(world, tmp_path / "dump", lambda states: [torch.randn_like(values) for values in states])
    assert of(compare(dump, write_bank(world, tmp_path / "bank", served=(3, 6, 9)))) == []


def test_states_in_their_places_are_no_wrong_cut(tmp_path: Path) -> None:
    world = make_world()
    dump = write_cut(world, tmp_path / "dump", lambda states: [states[0], torch.randn_like(states[1]), *states[2:]])
    assert of(compare(dump, write_bank(world, tmp_path / "bank"))) == []
