"""``hsforensics fingerprint`` and its options of ``compare``, on the command line."""

import json
from pathlib import Path

from typer.testing import CliRunner

from hsforensics.cli.main import app
from hsforensics.errors import HsfError
from hsforensics.states import POSTNORM
from tests.world import make_world, write_bank, write_dump

RUN = CliRunner()


def test_fingerprints_of_both_sides_give_the_exit_code_of_the_verdict(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, POSTNORM))
    for name, served in (("right", (3, 6, 9)), ("wrong", (4, 7, 10))):
        write_bank(world, tmp_path / name, served=served)
        made = RUN.invoke(app, ["fingerprint", str(tmp_path / name), "-o", str(tmp_path / f"{name}.fp"), "--json"])
        assert made.exit_code == 0
        assert json.loads(made.stdout)["source"] == "capture"
    out = str(tmp_path / "dump.fp")
    assert RUN.invoke(app, ["fingerprint", str(dump), "--out", out]).exit_code == 0
    assert RUN.invoke(app, ["compare", out, str(tmp_path / "right.fp")]).exit_code == 0
    assert RUN.invoke(app, ["compare", out, str(tmp_path / "wrong.fp")]).exit_code == 1


def test_repeat_and_rank_are_passed_on(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, POSTNORM))
    live = str(write_bank(world, tmp_path / "live", served=(3, 6, 9)))
    done = RUN.invoke(app, ["compare", str(dump), live, "--repeat", live, "--rank", live, "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["channels"][0]["noise_floor"] == 0.0


def test_an_existing_file_is_refused(tmp_path: Path) -> None:
    dump = write_dump(make_world(), tmp_path / "dump", (3, 6, 9, POSTNORM))
    done = RUN.invoke(app, ["fingerprint", str(dump), "-o", str(tmp_path / "dump")])
    assert isinstance(done.exception, HsfError)
    assert done.exception.exit_code == 3
