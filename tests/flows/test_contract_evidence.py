"""Kept means checked: a bank serves nothing, a capture of another config proves nothing of this one, weights count."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from hsforensics.drafter.contract import NAME, read_contract
from hsforensics.errors import HsfError
from hsforensics.flows.contract import write_contract
from hsforensics.flows.verify_contract import verify_contract
from hsforensics.results_contract import ContractResult
from tests.incident import write_config
from tests.world import HIDDEN, World, make_world, write_bank, write_target

STATES = (3, 6, 9)
ENGINE = "sglang==0.5.12.post1"  # of the world's live captures; ids [2, 5, 8] ask it for the states
RIGHT, WRONG = [2, 5, 8], [-1, 2, 5]


def _written(tmp_path: Path, world: World, ids: list[int]) -> Path:
    """A drafter with a contract, whose config then gets these ids."""
    drafter = tmp_path / "drafter"
    drafter.mkdir()
    _configure(drafter, RIGHT)
    _weights(drafter)
    samples = [(tokens, [bank[s] for s in STATES]) for tokens, bank in zip(world.tokens, world.banks, strict=True)]
    write_contract(drafter, wiring=STATES, target=write_target(world, tmp_path / "target"), samples=samples)
    _configure(drafter, ids)
    return drafter


def _configure(drafter: Path, ids: list[int]) -> None:
    write_config(drafter, hidden_size=HIDDEN, eagle_config={"eagle_aux_hidden_state_layer_ids": ids})


def _weights(drafter: Path, more: float = 0.0, name: str = "fc.weight") -> None:
    fc, norm = _tensors().values()
    save_file({name: fc + more, "norm.weight": norm}, drafter / "model.safetensors")


def _tensors() -> dict[str, torch.Tensor]:
    fc = torch.arange(6.0 * HIDDEN).reshape(2, 3 * HIDDEN)  # [H', 3 H]
    return {"fc.weight": fc, "norm.weight": torch.ones(HIDDEN)}


def _codes(result: ContractResult) -> list[str]:
    return [item.code for item in result.findings]


@pytest.mark.parametrize(
    ("ids", "engine", "verdict"),
    [(RIGHT, None, "undecided"), (WRONG, None, "undecided"), (RIGHT, ENGINE, "kept"), (WRONG, ENGINE, "broken")],
)
def test_a_bank_says_nothing_of_serving(tmp_path: Path, ids: list[int], engine: str | None, verdict: str) -> None:
    world = make_world()
    drafter = _written(tmp_path, world, ids)
    result = verify_contract(drafter, engines=engine or (), capture=write_bank(world, tmp_path / "bank"))
    assert result.verdict == verdict
    assert {slot.status for slot in result.slots} == {"matched"}
    assert ("serving-unchecked" in _codes(result)) == (engine is None)
    assert "other-config" not in _codes(result)


@pytest.mark.parametrize("served_with", ["this", "1" * 64, None])
@pytest.mark.parametrize("ids", [RIGHT, WRONG])
@pytest.mark.parametrize("served", [STATES, (4, 7, 10)])
@pytest.mark.parametrize("engine", [None, ENGINE])
def test_a_live_capture_speaks_for_the_config_that_it_was_served_with(
    tmp_path: Path, served: tuple[int, ...], ids: list[int], served_with: str | None, engine: str | None
) -> None:
    world = make_world()
    drafter = _written(tmp_path, world, ids)
    digest = hashlib.sha256((drafter / "config.json").read_bytes()).hexdigest()
    this = served_with == "this"
    live = write_bank(world, tmp_path / "live", served, drafter_config=digest if this else served_with)
    result = verify_contract(drafter, engines=engine or (), capture=live)
    kept = "kept" if this or engine else "undecided"
    denied = served != STATES or (engine is not None and ids == WRONG)
    assert result.verdict == ("broken" if denied else kept)
    assert ("other-config" in _codes(result)) == (not this)
    assert ("serving-unchecked" in _codes(result)) == (not this and engine is None)
    assert result.provenance.served_config_sha256 == (digest if this else served_with)


@pytest.mark.parametrize("more", [0.01, 1.0])
def test_other_weights_of_the_same_structure_break_it(tmp_path: Path, more: float) -> None:
    drafter = _written(tmp_path, make_world(), RIGHT)
    assert verify_contract(drafter, engines=ENGINE).verdict == "kept"
    _weights(drafter, more)
    result = verify_contract(drafter, engines=ENGINE)
    (found,) = (item for item in result.findings if item.severity == "error")
    assert (result.verdict, found.code) == ("broken", "contract-broken")
    assert "other values" in found.message


def test_other_names_are_told_once_and_not_as_other_values_too(tmp_path: Path) -> None:
    drafter = _written(tmp_path, make_world(), RIGHT)
    _weights(drafter, 1.0, "model.fc.weight")
    messages = [item.message for item in verify_contract(drafter, engines=ENGINE).findings if item.severity == "error"]
    assert len(messages) == 1
    assert messages[0].startswith("the weights' names, shapes or dtypes are not")


@pytest.mark.parametrize("sharded", [False, True])
def test_the_hash_is_of_the_weights_and_not_of_their_files(tmp_path: Path, sharded: bool) -> None:
    drafter = _written(tmp_path, make_world(), RIGHT)
    names = ("b", "a") if sharded else ("weights", "weights")
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, (key, value) in zip(names, _tensors().items(), strict=True):
        parts.setdefault(name, {})[key] = value
    (drafter / "model.safetensors").unlink()
    for name, part in parts.items():
        save_file(part, drafter / f"{name}.safetensors")
    assert verify_contract(drafter, engines=ENGINE).verdict == "kept"


@pytest.mark.parametrize("absent", [True, False])
def test_an_older_contract_says_that_weights_were_not_checked_and_may_be_written_again(
    tmp_path: Path, absent: bool
) -> None:
    world = make_world()
    drafter = _written(tmp_path, world, RIGHT)
    path = drafter / NAME
    whole = read_contract(path)
    data = json.loads(path.read_text())
    data["drafter_weights_sha256"] = None
    if absent:
        del data["drafter_weights_sha256"]
    path.write_text(json.dumps(data))
    _weights(drafter, 0.01)
    result = verify_contract(drafter, engines=ENGINE)
    (told,) = (item for item in result.findings if item.code == "weights-unchecked")
    assert (result.verdict, told.severity) == ("kept", "warning")
    assert "--wiring 3,6,9" in told.commands[0]
    _weights(drafter)
    samples = [(tokens, [bank[s] for s in STATES]) for tokens, bank in zip(world.tokens, world.banks, strict=True)]
    write_contract(drafter, wiring=STATES, target=tmp_path / "target", samples=samples)
    assert read_contract(path).drafter_weights_sha256 == whole.drafter_weights_sha256
    _weights(drafter, 0.01)
    with pytest.raises(HsfError, match="promises something else"):
        write_contract(drafter, wiring=STATES, target=tmp_path / "target", samples=samples)


def test_a_contract_without_weights_says_so(tmp_path: Path) -> None:
    _configure(tmp_path, RIGHT)
    write_contract(tmp_path, wiring=STATES, layers=12)
    result = verify_contract(tmp_path, engines=ENGINE, architecture="LlamaForCausalLM")
    (told,) = (item for item in result.findings if item.code == "weights-unchecked")
    assert (result.verdict, "no weights lay beside" in told.message) == ("kept", True)
