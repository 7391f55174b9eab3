"""The contract: written at training, checked by rule and by values, and never kept by accident."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import hsforensics.contract
from hsforensics.capture.manifest import file_sha256
from hsforensics.drafter.contract import NAME, promise, read_contract, write_contract_file
from hsforensics.errors import HsfError
from hsforensics.flows.contract import write_contract
from hsforensics.flows.fix_config import fix_config
from hsforensics.flows.verify_contract import verify_contract
from hsforensics.results_contract import ContractResult
from tests.incident import WIDTH, report, write_config
from tests.world import HIDDEN, LAYERS, World, make_world, write_bank, write_dump, write_target

STATES = (3, 6, 9)
RIGHT, WRONG = "sglang==0.5.12.post1", "sglang==0.4.7"  # ids [2, 5, 8] are the states, or are never read


def _drafter(path: Path, ids: tuple[int, ...] = (2, 5, 8), **config: Any) -> Path:
    path.mkdir()
    _configure(path, ids, **config)
    _weights(path, 3)
    return path


def _configure(path: Path, ids: tuple[int, ...] = (2, 5, 8), **config: Any) -> None:
    nested = {"eagle_aux_hidden_state_layer_ids": list(ids)}
    write_config(path, eagle_config=nested, hidden_size=HIDDEN, **config)


def _weights(path: Path, states: int, hidden: int = HIDDEN) -> None:
    save_file({"fc.weight": torch.zeros(2, states * hidden)}, path / "model.safetensors")


def _written(tmp_path: Path, world: World | None = None, **config: Any) -> Path:
    """A drafter with a contract that holds values of a world."""
    drafter = _drafter(tmp_path / "drafter", **config)
    world = world or make_world()
    samples = [(ids, [bank[s] for s in STATES]) for ids, bank in zip(world.tokens, world.banks, strict=True)]
    write_contract(drafter, wiring=STATES, target=write_target(world, tmp_path / "target"), samples=samples)
    return drafter


def _errors(result: ContractResult) -> list[str]:
    return [item.code for item in result.findings if item.severity == "error"]


def test_one_line_of_python_writes_what_the_trainer_knows(tmp_path: Path) -> None:
    drafter, world = _drafter(tmp_path / "drafter", norm_before_fc=True), make_world()
    hsforensics.contract.write_contract(
        drafter, wiring=STATES, layers=LAYERS, samples=[(world.tokens[0], [world.banks[0][s] for s in STATES])]
    )
    contract = read_contract(drafter / NAME)
    assert (contract.states, contract.target.layers, contract.layout) == (STATES, LAYERS, "nested")
    assert contract.flags["norm_before_fc"]
    assert not contract.flags["norm_output"]
    assert set(contract.producers) == {"hsforensics", "python"}
    (mark,) = contract.imprints
    assert mark.tokens == 40
    assert len(mark.rows) == 8
    assert str(world.tokens[0].tolist()[3:6])[1:-1] not in (drafter / NAME).read_text()  # no text, only its hash
    assert (drafter / NAME).stat().st_size < 20_000


def test_a_contract_from_dumps_holds_what_one_from_tensors_holds(tmp_path: Path) -> None:
    world = make_world()
    first, second = _written(tmp_path, world), _drafter(tmp_path / "second")
    dumps = write_dump(world, tmp_path / "dump", (*STATES, LAYERS))
    write_contract(second, wiring=STATES, target=tmp_path / "target", dumps=dumps)
    assert read_contract(first / NAME).imprints == read_contract(second / NAME).imprints


@pytest.mark.parametrize(("engine", "verdict"), [(RIGHT, "kept"), (WRONG, "broken"), ("vllm==0.33.0", "broken")])
def test_the_config_keeps_or_breaks_the_promise_by_engine(tmp_path: Path, engine: str, verdict: str) -> None:
    result = verify_contract(_written(tmp_path), engines=(engine,))
    assert result.verdict == verdict
    assert _errors(result) == ([] if verdict == "kept" else ["config-serves-other"])


def test_a_bank_confirms_the_states_and_a_live_capture_what_is_served(tmp_path: Path) -> None:
    world = make_world()
    drafter = _written(tmp_path, world)
    config = hashlib.sha256((drafter / "config.json").read_bytes()).hexdigest()
    for name, served, verdict in (("bank", (), "undecided"), ("live", STATES, "kept")):
        capture = write_bank(world, tmp_path / name, served, noise=0.01, drafter_config=config if served else None)
        result = verify_contract(drafter, capture=capture)
        assert result.verdict == verdict  # a bank says nothing of serving
        assert {slot.status for slot in result.slots} == {"matched"}
        assert [slot.nearest for slot in result.slots] == [*STATES]
        assert result.rows == 16


@pytest.mark.parametrize(
    ("served", "broken"),
    [((3, 6, 8), 1), ((2, 5, 8), 3), ((6, 3, 9), 2), ((3, 6), 1), ((3, 6, 9, 10), 1)],
)
def test_an_engine_that_feeds_other_states_breaks_it(tmp_path: Path, served: tuple[int, ...], broken: int) -> None:
    world = make_world()
    result = verify_contract(_written(tmp_path, world), capture=write_bank(world, tmp_path / "live", served))
    assert result.verdict == "broken"
    assert _errors(result) == ["contract-broken"] * broken


def test_a_promise_of_the_wrong_states_is_refuted_by_a_bank(tmp_path: Path) -> None:
    world = make_world()
    drafter = _written(tmp_path, world)
    path = drafter / NAME
    write_contract_file(path, replace(read_contract(path), states=(3, 6, 10)), force=True)
    result = verify_contract(drafter, capture=write_bank(world, tmp_path / "bank"))
    assert (result.verdict, result.slots[2].nearest, result.slots[2].status) == ("broken", 9, "mismatched")


@pytest.mark.parametrize(
    ("seed", "rows", "said", "evidence", "remedy"),
    [
        (5, None, "no request starts with the tokens of the contract's 2", "3 requests", "Capture the dumps that"),
        (5, 20, "the longest request has 20 rows", "needed 33 rows, got 20", "at least 33 tokens"),
        (0, 20, "known by their first 33 and 40 tokens", "needed 33 rows, got 20", "a larger --max-tokens, or none"),
    ],
)
def test_a_capture_without_the_contracts_tokens_decides_nothing_and_says_why(
    tmp_path: Path, seed: int, rows: int | None, said: str, evidence: str, remedy: str
) -> None:
    """Too short a capture is not taken for one of other tokens."""
    drafter = _written(tmp_path)
    result = verify_contract(drafter, capture=write_bank(make_world(seed=seed), tmp_path / "bank", rows=rows))
    assert (result.verdict, result.rows, result.slots) == ("undecided", 0, ())
    (note,) = [item for item in result.findings if item.code == "tokens-unmatched"]
    assert said in note.message
    assert evidence in note.evidence
    assert remedy in note.remedy


def test_a_capture_without_first_rows_and_a_contract_without_values_say_so(tmp_path: Path) -> None:
    drafter, world = _written(tmp_path), make_world()
    write_bank(world, tmp_path / "bank")
    for file in sorted((tmp_path / "bank").glob("request-*")):
        held = load_file(file)
        save_file({**held, "positions": held["positions"] + 3}, file)
    manifest = json.loads((tmp_path / "bank" / "manifest.json").read_text())
    for entry in manifest["requests"]:
        entry["sha256"] = file_sha256(tmp_path / "bank" / entry["file"])
    (tmp_path / "bank" / "manifest.json").write_text(json.dumps(manifest))
    late = verify_contract(drafter, capture=tmp_path / "bank").findings[0]
    assert (late.code, "lack their first rows" in late.evidence) == ("tokens-unmatched", True)
    write_contract(drafter, wiring=STATES, force=True)
    bare = verify_contract(drafter, capture=tmp_path / "bank").findings[0]
    assert (bare.code, "keeps no values" in bare.message, bare.commands) == ("tokens-unmatched", True, ())


def test_a_contract_without_values_cannot_be_checked_against_a_capture(tmp_path: Path) -> None:
    drafter = _drafter(tmp_path / "drafter")
    write_contract(drafter, wiring=STATES)
    assert verify_contract(drafter, capture=write_bank(make_world(), tmp_path / "bank")).verdict == "undecided"
    nothing_given = verify_contract(drafter)
    assert (nothing_given.verdict, [i.code for i in nothing_given.findings]) == ("undecided", ["serving-unchecked"])


def test_rows_that_are_not_finite_never_match(tmp_path: Path) -> None:
    world = make_world()
    drafter = _written(tmp_path, world)
    for bank in world.banks:
        bank[6][:] = torch.nan
    result = verify_contract(drafter, capture=write_bank(world, tmp_path / "live", STATES))
    assert (result.verdict, result.slots[1].status) == ("broken", "mismatched")
    json.dumps([slot.served for slot in result.slots], allow_nan=False)


def test_changed_weights_switches_and_targets_break_it(tmp_path: Path) -> None:
    drafter = _written(tmp_path)
    _configure(drafter, norm_output=True)
    assert _errors(verify_contract(drafter)) == ["contract-broken"]
    _weights(drafter, 4)
    assert _errors(verify_contract(drafter)) == ["contract-broken"] * 2
    other = write_target(replace(make_world(), architecture="OtherForCausalLM"), tmp_path / "other")
    assert _errors(verify_contract(drafter, target=other)) == ["contract-broken"] * 3


def test_a_target_whose_config_changed_in_a_detail_is_a_warning(tmp_path: Path) -> None:
    drafter = _written(tmp_path)
    near = write_target(replace(make_world(), extra={"rope_theta": 5.0}), tmp_path / "near")
    result = verify_contract(drafter, target=near)
    assert (result.verdict, [i.code for i in result.findings]) == (
        "undecided",
        ["contract-target-config", "serving-unchecked"],
    )


@pytest.mark.parametrize(
    ("engine", "flag", "ignored"),
    [
        ("sglang==0.5.16", "norm_before_fc", True),
        ("sglang==0.5.17", "norm_before_fc", False),
        ("sglang==0.5.23", "norm_before_residual", True),
        ("vllm==0.33.0", "norm_before_residual", False),
        ("sglang==0.5.11", "norm_output", True),
    ],
)
def test_a_norm_that_the_engine_leaves_out_breaks_it(tmp_path: Path, engine: str, flag: str, ignored: bool) -> None:
    result = verify_contract(_written(tmp_path, **{flag: True}), engines=(engine,))
    assert ("flag-ignored" in _errors(result)) == ignored


def test_a_report_gives_states_and_target_and_must_be_of_this_drafter(tmp_path: Path) -> None:
    drafter = _drafter(tmp_path / "drafter")
    write_config(drafter)
    _weights(drafter, 3, WIDTH)
    write_contract(drafter, report=report())
    contract = read_contract(drafter / NAME)
    assert (contract.states, contract.target.layers, contract.target_state) == ((3, 31, 59), 61, 61)
    with pytest.raises(HsfError) as caught:
        write_contract(drafter, report=report(drafter_structure_sha256="0" * 64))
    assert caught.value.code == "report-foreign"


def test_another_promise_is_never_replaced_silently_but_the_same_may_be_written_again(tmp_path: Path) -> None:
    drafter = _drafter(tmp_path / "drafter")
    write_contract(drafter, wiring=STATES)
    write_contract(drafter, wiring=STATES)
    with pytest.raises(HsfError, match="promises something else") as caught:
        write_contract(drafter, wiring=(1, 2, 3))
    assert caught.value.code == "write-refused"
    assert read_contract(drafter / NAME).states == STATES
    write_contract(drafter, wiring=(1, 2, 3), force=True)
    assert read_contract(drafter / NAME).states == (1, 2, 3)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": "other"}', '{"format": "hsforensics-contract", "version": 2}']
)
def test_a_torn_or_foreign_contract_is_refused(tmp_path: Path, text: str) -> None:
    drafter = _drafter(tmp_path / "drafter")
    (drafter / NAME).write_text(text)
    with pytest.raises(HsfError) as caught:
        verify_contract(drafter)
    assert caught.value.code == "contract-unreadable"


def test_no_contract_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(HsfError) as caught:
        verify_contract(_drafter(tmp_path / "drafter"))
    assert (caught.value.code, caught.value.exit_code) == ("contract-unreadable", 3)


@pytest.mark.parametrize("wiring", [(3, 6), (3, 6, 9, 10)])
def test_a_promise_that_fc_cannot_take_is_refused(tmp_path: Path, wiring: tuple[int, ...]) -> None:
    with pytest.raises(HsfError, match=r"fc.weight takes 3"):
        write_contract(_drafter(tmp_path / "drafter"), wiring=wiring)


@pytest.mark.parametrize("fault", ["nan", "few channels", "few rows", "no tokens"])
def test_values_that_prove_nothing_are_refused(tmp_path: Path, fault: str) -> None:
    world, drafter = make_world(), _drafter(tmp_path / "drafter")
    tokens, channels = world.tokens[0], [world.banks[0][s].clone() for s in STATES]
    if fault == "nan":
        channels[1][5:] = torch.nan
    elif fault == "few channels":
        channels.pop()
    elif fault == "few rows":
        channels[2] = channels[2][:5]
    else:
        tokens = tokens[:0]
    with pytest.raises(HsfError):
        write_contract(drafter, wiring=STATES, samples=[(tokens, channels)])
    assert not (drafter / NAME).exists()


def test_a_hub_cache_gets_no_contract(tmp_path: Path) -> None:
    cache = tmp_path / "models--a--b" / "snapshots"
    cache.mkdir(parents=True)
    drafter = _drafter(cache / "1")
    with pytest.raises(HsfError, match="hub cache"):
        write_contract(drafter, wiring=STATES)
    assert not (drafter / NAME).exists()


def test_a_contract_is_broken_where_the_engine_serves_no_state_at_all_and_fix_config_refuses(tmp_path: Path) -> None:
    drafter, name = _written(tmp_path), "Gemma3ForCausalLM"
    kept = verify_contract(drafter, engines=("sglang==0.5.16",), architecture=name)
    broken = verify_contract(drafter, engines=("sglang==0.5.20",), architecture=name)
    assert (kept.verdict, broken.verdict) == ("kept", "broken")
    assert _errors(broken) == ["config-serves-other"]
    assert "no state of the target" in broken.findings[0].message
    with pytest.raises(HsfError) as caught:
        fix_config(drafter, engine="sglang==0.5.20", wiring=STATES, architecture=name, layers=LAYERS, write=True)
    assert caught.value.code == "not-expressible"
    assert ">=0.5.12,<0.5.17" in caught.value.remedy


def test_a_trainers_strings_lists_and_batches_of_one_give_the_same_contract(tmp_path: Path) -> None:
    world = make_world()
    drafter, target = _drafter(tmp_path / "drafter"), write_target(world, tmp_path / "target")
    ids, channels = world.tokens[0], [world.banks[0][s] for s in STATES]
    write_contract(drafter, wiring=STATES, target=target, samples=[(ids, channels)])
    first = promise(read_contract(drafter / NAME))
    batched = (ids[None], [channel[None] for channel in channels])
    for sample in ((ids.tolist(), channels), batched, (ids, torch.stack(channels))):
        for wiring in ([*STATES], "3,6,9", np.array(STATES)):
            write_contract(str(drafter), wiring=wiring, target=str(target), samples=[sample])
            assert promise(read_contract(drafter / NAME)) == first
    assert verify_contract(str(drafter), engines=RIGHT, target=str(target)).verdict == "kept"


@pytest.mark.parametrize(
    "given",
    [
        {"wiring": [3, 6, "nine"]},
        {"wiring": [3, 6, 9.5]},
        {"wiring": [3, 6, -9]},
        {"wiring": []},
        {"samples": [torch.zeros(4)]},
        {"samples": [("some text", [])]},
        {"samples": [([1.5, 2.0], [torch.zeros(2, HIDDEN)] * 3)]},
        {"samples": [(torch.zeros(2, 4).long(), [torch.zeros(4, HIDDEN)] * 3)]},
        {"samples": [([1, 2], [torch.zeros(2, 2, HIDDEN)] * 3)]},
        {"samples": [([1, 2], 7)]},
    ],
)
def test_what_is_no_wiring_or_no_sample_is_a_usage_error(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(HsfError) as caught:
        write_contract(_drafter(tmp_path / "drafter"), **{"wiring": STATES, **given})
    assert caught.value.code == "usage"
