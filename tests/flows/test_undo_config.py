"""fix-config --undo and --output: nothing is ever lost, and an input is never touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsforensics.errors import HsfError
from hsforensics.flows.fix_config import fix_config
from hsforensics.flows.undo_config import undo_config
from tests.incident import KIMI, LAYERS, TRAINED, write_config, write_weights

ENGINE = "sglang==0.5.16"


def _fix(drafter: Path, wiring: tuple[int, ...] = TRAINED, **options: object) -> None:
    fix_config(drafter, engine=ENGINE, wiring=wiring, architecture=KIMI, layers=LAYERS, **options)  # type: ignore[arg-type]


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_undo_gives_the_bytes_back_and_keeps_those_that_were_there(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    before = config.read_bytes()
    _fix(tmp_path, write=True)
    fixed = config.read_bytes()
    done = undo_config(tmp_path)
    assert config.read_bytes() == before
    assert Path(done.kept).read_bytes() == fixed
    assert "+      -1," in done.diff
    assert _names(tmp_path) == ["config.json", "config.json.undone"]


def test_two_edits_are_undone_one_after_the_other_and_then_there_is_nothing_left(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    before = config.read_bytes()
    _fix(tmp_path, write=True)
    middle = config.read_bytes()
    _fix(tmp_path, wiring=(5, 6, 7), write=True)
    undo_config(tmp_path)
    assert config.read_bytes() == middle
    undo_config(config)
    assert config.read_bytes() == before
    with pytest.raises(HsfError, match="nothing was edited") as caught:
        undo_config(tmp_path)
    assert caught.value.exit_code == 3


def test_a_backup_that_is_no_config_is_not_restored(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    before = config.read_bytes()
    (tmp_path / "config.json.bak").write_text("torn {")
    with pytest.raises(HsfError) as caught:
        undo_config(tmp_path)
    assert caught.value.code == "drafter-unreadable"
    assert config.read_bytes() == before


def test_output_makes_a_drafter_of_links_and_touches_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "models--a--b" / "snapshots" / "1"
    blobs = tmp_path / "models--a--b" / "blobs"
    cache.mkdir(parents=True)
    blobs.mkdir()
    config = write_config(blobs)
    write_weights(blobs)
    for name in ("config.json", "model.safetensors"):
        (cache / name).symlink_to(blobs / name)
    before = config.read_bytes()
    _fix(cache, output=tmp_path / "new" / "drafter")
    made = tmp_path / "new" / "drafter"
    assert b"31" in (made / "config.json").read_bytes()
    assert not (made / "config.json").is_symlink()
    assert (made / "model.safetensors").readlink() == blobs / "model.safetensors"
    assert config.read_bytes() == before
    assert _names(tmp_path / "new") == ["drafter"]
    again = fix_config(made, engine=ENGINE, wiring=TRAINED, architecture=KIMI, layers=LAYERS)
    assert (again.pending, again.edits) == (False, ())


def test_an_output_that_holds_something_is_refused(tmp_path: Path) -> None:
    drafter, output = tmp_path / "drafter", tmp_path / "out"
    drafter.mkdir()
    output.mkdir()
    write_config(drafter)
    (output / "mine").write_text("x")
    with pytest.raises(HsfError, match="not an empty directory"):
        _fix(drafter, output=output)
    assert _names(output) == ["mine"]
