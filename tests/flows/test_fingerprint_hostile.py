"""Fingerprints of strangers: the header of the capture that they were made of is checked like a capture's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from hsforensics.errors import HsfError
from hsforensics.flows.compare import compare
from hsforensics.flows.fingerprint import fingerprint
from tests.world import make_world, write_bank, write_dump

BROKEN = [
    *[("layers", value) for value in (10**8, 10**30, 0, -5, 5, "12", True, None)],
    *[("served", value) for value in (10**8, -1, 0, 2, 4, "3")],
    *[("ranks", value) for value in (0, -1, 10**6, "2")],
    *[("hidden_size", value) for value in (0, 10**8, 47, "48")],
    *[("states", value) for value in ([0, 0], [1, 0], [99], ["0"], [], 3)],
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world, home = make_world(), tmp_path_factory.mktemp("made")
    write_dump(world, home / "dump", (3, 6, 9, "postnorm"))
    fingerprint(write_bank(world, home / "live", served=(3, 6, 9)), home / "live.fp")
    return home


@pytest.mark.parametrize(("key", "value"), BROKEN)
def test_a_header_that_cannot_be_is_refused(key: str, value: object, made: Path, tmp_path: Path) -> None:
    with safe_open(made / "live.fp", framework="pt") as file:
        metadata = file.metadata()
    (name,) = metadata
    described = json.loads(metadata[name])
    described["header"][key] = value
    save_file(load_file(made / "live.fp"), tmp_path / "x.fp", metadata={name: json.dumps(described)})
    with pytest.raises(HsfError) as refused:
        compare(made / "dump", tmp_path / "x.fp")
    assert refused.value.code == "capture-foreign"
    assert len(str(refused.value)) < 1000


def test_the_untouched_one_is_read(made: Path) -> None:
    assert compare(made / "dump", made / "live.fp").served_wiring == (3, 6, 9)
