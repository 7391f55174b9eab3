"""A repeat or a rank that cannot belong to the capture is refused, never passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hsforensics.errors import HsfError
from hsforensics.flows.compare import compare
from hsforensics.flows.fingerprint import fingerprint
from tests.capture import makers
from tests.world import World, make_world, write_bank, write_dump, write_target

TRUTH = (3, 6, 9, "postnorm")


@pytest.fixture
def world() -> World:
    return make_world()


def _refused(options: dict[str, Any]) -> HsfError:
    with pytest.raises(HsfError) as refused:
        compare(**options)
    assert refused.value.code == "usage"
    return refused.value


def _options(option: str, path: Path) -> dict[str, Any]:
    return {"repeat": path} if option == "--repeat" else {"ranks": (path,)}


@pytest.mark.parametrize("option", ["--repeat", "--rank"])
def test_a_fingerprint_is_told_as_one(option: str, world: World, tmp_path: Path) -> None:
    dump, live = write_dump(world, tmp_path / "dump", TRUTH), write_bank(world, tmp_path / "live", served=(3, 6, 9))
    fingerprint(live, tmp_path / "live.fp")
    error = _refused({"dumps": dump, "capture": live, **_options(option, tmp_path / "live.fp")})
    assert (error.where, "is a fingerprint" in error.message) == (option, True)


@pytest.mark.parametrize("option", ["--repeat", "--rank"])
def test_it_belongs_to_a_capture(option: str, world: World, tmp_path: Path) -> None:
    dump, live = write_dump(world, tmp_path / "dump", TRUTH), write_bank(world, tmp_path / "live", served=(3, 6, 9))
    target = write_target(world, tmp_path / "target")
    error = _refused({"dumps": dump, "target": target, **_options(option, live)})
    assert (error.where, error.remedy) == (option, "name the CAPTURE as well")


@pytest.mark.parametrize("sketched", [False, True])
@pytest.mark.parametrize("option", ["--repeat", "--rank"])
def test_another_width_is_refused(option: str, sketched: bool, world: World, tmp_path: Path) -> None:
    dump, live = write_dump(world, tmp_path / "dump", TRUTH), write_bank(world, tmp_path / "live", served=(3, 6, 9))
    head = makers.header(served=3)
    from hsforensics.capture.store import write_capture

    write_capture(tmp_path / "narrow", head, [makers.request(4, head)])
    if sketched:
        fingerprint(live, tmp_path / "live.fp")
        live = tmp_path / "live.fp"
    error = _refused({"dumps": dump, "capture": live, **_options(option, tmp_path / "narrow")})
    assert "width" in error.message or "sums of ranks need the rows" in error.message


def test_a_repeat_of_other_tokens_is_refused_and_of_some_is_not(world: World, tmp_path: Path) -> None:
    dump, bank = write_dump(world, tmp_path / "dump", TRUTH), write_bank(world, tmp_path / "bank")
    error = _refused(
        {"dumps": dump, "capture": bank, "repeat": write_bank(make_world(1), tmp_path / "other")},
    )
    assert "no request with the tokens" in error.message
    assert compare(dump, bank, repeat=write_bank(world, tmp_path / "again")).trained_wiring == (3, 6, 9)
