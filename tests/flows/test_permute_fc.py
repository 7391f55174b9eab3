"""fix-config --permute-fc: the same drafter for states in ascending order, and a proof that can fail."""

from __future__ import annotations

import stat
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from hsforensics.drafter.permute_proof import prove_equal
from hsforensics.errors import HsfError
from hsforensics.flows.fix_inputs import FixWishes
from hsforensics.flows.permute_fc import permute_fc
from hsforensics.models.target import load_target
from tests.drafter.makers import make_spec, make_tensors, write_drafter
from tests.incident import KIMI, LAYERS, WIDTH, write_config
from tests.world import make_world, write_target

ENGINES = ("sglang==0.5.16", "vllm==0.33.0")


def _drafter(path: Path, norms: str = "none") -> dict[str, Tensor]:
    path.mkdir()
    write_config(path)
    generator = torch.Generator().manual_seed(0)
    tensors = {"fc.weight": torch.randn(WIDTH, 3 * WIDTH, generator=generator), "d2t": torch.arange(5)}
    if norms == "input":
        tensors["input_norm.weight"] = torch.rand(3 * WIDTH, generator=generator)
    names = {"each": "fc_norm.{}.weight", "old": "aux_norm_{}.weight"}
    for place, old in enumerate(("low", "mid", "high")) if norms in names else ():
        tensors[names[norms].format(place if norms == "each" else old)] = torch.rand(WIDTH, generator=generator)
    save_file(
        {name: x.bfloat16() if x.is_floating_point() else x for name, x in tensors.items()}, path / "a.safetensors"
    )
    (path / "README.md").write_text("mine")
    return load_file(path / "a.safetensors")


def _wishes(wiring: tuple[int, ...], **more: Any) -> FixWishes:
    return FixWishes(wiring=wiring, engines=ENGINES, architecture=KIMI, layers=LAYERS, **more)


@pytest.mark.parametrize("norms", ["none", "input", "each", "old"])
@pytest.mark.parametrize("wiring", [w for w in permutations((3, 31, 59)) if w != (3, 31, 59)])
def test_every_order_of_three_states_becomes_ascending_and_computes_the_same(
    tmp_path: Path, wiring: tuple[int, ...], norms: str
) -> None:
    before = _drafter(tmp_path / "drafter", norms)
    done = permute_fc(tmp_path / "drafter", _wishes(wiring), tmp_path / "out")
    after = load_file(tmp_path / "out" / "a.safetensors")
    states = {state: torch.randn(7, WIDTH, dtype=torch.float64) for state in wiring}
    old = torch.cat([states[state] for state in wiring], -1) @ before["fc.weight"].double().T
    new = torch.cat([states[state] for state in sorted(wiring)], -1) @ after["fc.weight"].double().T
    torch.testing.assert_close(old, new)
    assert (done.trained, done.wiring, done.blocks_equal) == (wiring, (3, 31, 59), True)
    assert done.outputs_difference < 1e-5
    assert {p.states for p in done.predicted} == {(3, 31, 59)}
    assert (tmp_path / "out" / "README.md").read_text() == "mine"
    assert torch.equal(after["d2t"], before["d2t"])


def test_a_checkpoint_that_differs_in_one_value_fails_the_proof(tmp_path: Path) -> None:
    _drafter(tmp_path / "drafter", "input")
    done = permute_fc(tmp_path / "drafter", _wishes((31, 3, 59)), tmp_path / "out")
    file = tmp_path / "out" / "a.safetensors"
    for name in ("fc.weight", "input_norm.weight"):
        tensors = load_file(file)
        tensors[name].view(-1)[0] += 1
        save_file(tensors, file)
        with pytest.raises(RuntimeError, match="differs"):
            prove_equal(tmp_path / "drafter", tmp_path / "out", done.order, None, 0)


def test_the_wrong_order_fails_the_proof(tmp_path: Path) -> None:
    _drafter(tmp_path / "drafter")
    permute_fc(tmp_path / "drafter", _wishes((31, 3, 59)), tmp_path / "out")
    with pytest.raises(RuntimeError, match="differs"):
        prove_equal(tmp_path / "drafter", tmp_path / "out", (0, 2, 1), None, 0)


def test_nothing_appears_and_the_input_stays_when_it_is_refused(tmp_path: Path) -> None:
    _drafter(tmp_path / "drafter")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    cases = [
        ((3, 31, 59), "out", "usage"),
        ((31, 0, 61), "out", "not-expressible"),
        ((31, 3, 59), "full", "write-refused"),
    ]
    for wiring, name, code in cases:
        with pytest.raises(HsfError) as caught:
            permute_fc(tmp_path / "drafter", _wishes(wiring), tmp_path / name)
        assert caught.value.code == code
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drafter", "full"]


@pytest.mark.parametrize("norms", [{}, {"input_norm": True}, {"fc_norm": True}])
def test_with_a_target_the_whole_drafter_is_run_for_the_proof(tmp_path: Path, norms: dict[str, bool]) -> None:
    drafter = write_drafter(tmp_path / "drafter", make_tensors(make_spec(**norms)))
    target = write_target(make_world(), tmp_path / "target")
    wishes = FixWishes(wiring=(6, 3, 9), engines=("sglang==0.5.16",), target=target)
    done = permute_fc(drafter, wishes, tmp_path / "out")
    assert (done.outputs_through, done.outputs_rows, done.order) == ("drafter", 48, (1, 0, 2))
    assert done.outputs_difference < 1e-5
    tensors = load_file(tmp_path / "out" / "w.safetensors")
    tensors["fc.weight"] += 1e-3
    save_file(tensors, tmp_path / "out" / "w.safetensors")
    with pytest.raises(RuntimeError, match="blocks equal False"):
        prove_equal(drafter, tmp_path / "out", done.order, load_target(target), 0)


def test_the_new_checkpoint_has_the_old_modes_and_no_copies_of_old_bytes(tmp_path: Path) -> None:
    source, out = tmp_path / "drafter", tmp_path / "out"
    _drafter(source)
    for name, mode in (("a.safetensors", 0o644), ("config.json", 0o640), ("README.md", 0o755)):
        (source / name).chmod(mode)
    for name in ("config.json.bak", "config.json.bak.1", "config.json.undone", "config.json.undone.2"):
        (source / name).write_text("old")
    permute_fc(source, _wishes((31, 3, 59)), out)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in out.iterdir()}
    assert modes == {"a.safetensors": 0o644, "config.json": 0o640, "README.md": 0o755}
