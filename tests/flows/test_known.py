"""Commands of remedies name the very paths, engine and wiring of the result that they stand in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from hsforensics.errors import HsfError
from hsforensics.flows.compare import compare
from hsforensics.flows.draft_data import open_data
from hsforensics.flows.fingerprint import fingerprint
from hsforensics.flows.fix_config import fix_config
from hsforensics.flows.fix_inputs import FixWishes
from hsforensics.flows.known import known_words
from hsforensics.flows.permute_fc import permute_fc
from hsforensics.flows.rules import rules
from hsforensics.flows.verify_contract import verify_contract
from hsforensics.results import DumpSource, Provenance
from hsforensics.states import POSTNORM, Finding
from tests.incident import KIMI, LAYERS, TRAINED, WIDTH, report, write_config, write_weights
from tests.world import HIDDEN, World, make_world, write_bank, write_dump, write_target

KNOWN = "sglang==0.5.12.post1"  # the engine of a live capture of the world


def _commands(findings: tuple[Finding, ...], code: str) -> tuple[str, ...]:
    (found,) = (item for item in findings if item.code == code)
    return found.commands


def _drafter(path: Path, ids: tuple[int, ...] = (3, 6, 9)) -> Path:
    path.mkdir()
    nested = {"eagle_aux_hidden_state_layer_ids": list(ids), "use_aux_hidden_state": True}
    write_config(path, hidden_size=HIDDEN, eagle_config=nested)
    return path


def _dump(world: World, path: Path) -> Path:
    return write_dump(world, path, (3, 6, 9, POSTNORM))


def test_a_measured_offset_is_repaired_by_what_can_be_copied(tmp_path: Path) -> None:
    world, home = make_world(), tmp_path / "a b"
    dump, live = _dump(world, home / "dump"), write_bank(world, home / "live", served=(4, 7, 10))
    drafter = _drafter(home / "drafter")
    result = compare(dump, live, drafter=drafter, engine="vllm==0.33.0")
    assert _commands(result.findings, "offset-uniform") == (
        f"hsforensics compare '{dump}' '{live}' --draft '{drafter}' --json > report.json",
        f"hsforensics fix-config '{drafter}' --report report.json --engine {KNOWN}",
    )


def test_a_prediction_is_repaired_for_its_own_engine(tmp_path: Path) -> None:
    world = make_world()
    dump, bank = _dump(world, tmp_path / "dump"), write_bank(world, tmp_path / "bank")
    drafter = _drafter(tmp_path / "drafter", (1, 4, 7))
    result = compare(dump, bank, drafter=drafter, engine="vllm==0.33.0", architecture="LlamaForCausalLM")
    (found,) = (item for item in result.findings if item.code == "config-serves-other")
    assert found.commands[1].endswith("--engine vllm==0.33.0")
    assert "ENGINE==VERSION" not in str(result.findings)


@pytest.mark.parametrize("with_target", [False, True])
def test_what_nobody_said_stays_a_placeholder(tmp_path: Path, with_target: bool) -> None:
    world = make_world()
    target = write_target(world, tmp_path / "target") if with_target else None
    dump = _dump(world, tmp_path / "dump")
    result = compare(dump, write_bank(world, tmp_path / "bank"), target=target)
    capture, again = _commands(result.findings, "served-unknown")
    model = target or "MODEL"  # the capture names a target that is not on this machine
    assert capture == f"hsforensics capture {dump} --engine sglang --target {model} --draft DRAFTER --out LIVE"
    assert again == f"hsforensics compare {dump} LIVE --draft DRAFTER"


def test_a_fingerprint_is_not_named_as_dumps(tmp_path: Path) -> None:
    world = make_world()
    fingerprint(_dump(world, tmp_path / "dump"), tmp_path / "dump.fp")
    result = compare(tmp_path / "dump.fp", write_bank(world, tmp_path / "bank"))
    assert " DUMPS " in _commands(result.findings, "served-unknown")[0]


def test_a_class_that_no_ids_help_is_not_sent_to_fix_config(tmp_path: Path) -> None:
    world = make_world()
    dump, bank = _dump(world, tmp_path / "dump"), write_bank(world, tmp_path / "bank")
    options: dict[str, Any] = {"engine": "sglang==0.5.20", "architecture": "Gemma3ForCausalLM"}
    result = compare(dump, bank, drafter=_drafter(tmp_path / "drafter"), **options)
    (ask,) = _commands(result.findings, "config-serves-other")
    assert ask.endswith("--engine sglang==0.5.20 --architecture Gemma3ForCausalLM --layers 12 --states 3,6,9")
    asked = rules(**options, layers=12, ids=(2, 5, 8))
    (told,) = asked.findings
    assert (told.code, "No ids can mend it" in told.remedy) == ("ids-fail", True)
    assert told.commands == (ask.replace("3,6,9", "STATES"),)


def test_a_written_config_is_measured_next_and_a_pending_one_written(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.argv", ["x/hsforensics", "fix-config", "my drafter", "--wiring", "3,31,59"])
    write_config(tmp_path)
    options: dict[str, Any] = {"wiring": TRAINED, "architecture": KIMI, "layers": LAYERS}
    pending = fix_config(tmp_path, engine="sglang==0.5.16", **options)
    assert pending.next_commands == ("hsforensics fix-config 'my drafter' --wiring 3,31,59 --write",)
    copied = fix_config(tmp_path, engine="vllm==0.33.0", output=tmp_path / "copy", **options)
    assert copied.next_commands == ()  # nothing here records vLLM
    written = fix_config(tmp_path, engine="sglang==0.5.16", write=True, **options)
    assert written.next_commands[0].endswith(f"--draft {tmp_path} --out LIVE")
    again = fix_config(tmp_path, engine="sglang==0.5.16", **options)
    assert (again.next_commands, len(_commands(again.findings, "config-serves-trained"))) == ((), 2)


def test_a_report_lends_its_dumps_and_an_output_is_what_is_served_next(tmp_path: Path) -> None:
    write_config(tmp_path)
    structure = write_weights(tmp_path)
    dumps = DumpSource(str(tmp_path), "speculators", 1, "bfloat16")
    found = report(drafter_structure_sha256=structure, dumps=(dumps,), target_path=str(tmp_path / "gone"))
    done = fix_config(tmp_path, engine="sglang==0.5.16", report=found, output=tmp_path / "out")
    assert done.next_commands == (
        f"hsforensics capture {tmp_path} --engine sglang --target MODEL --draft {tmp_path / 'out'} --out LIVE",
        f"hsforensics compare {tmp_path} LIVE --draft {tmp_path / 'out'}",
    )


def test_a_permuted_checkpoint_is_what_is_measured(tmp_path: Path) -> None:
    drafter = tmp_path / "drafter"
    drafter.mkdir()
    write_config(drafter)
    save_file({"fc.weight": torch.randn(WIDTH, 3 * WIDTH)}, drafter / "model.safetensors")
    wishes = FixWishes(wiring=(31, 3, 59), engines=("sglang==0.5.16",), architecture=KIMI, layers=LAYERS)
    done = permute_fc(drafter, wishes, tmp_path / "out")
    assert f"--draft {tmp_path / 'out'} " in _commands(done.findings, "predicted-not-measured")[0]


def test_a_contract_names_its_own_wiring_for_the_repair(tmp_path: Path) -> None:
    from hsforensics.flows.contract import write_contract

    write_config(tmp_path)
    write_contract(tmp_path, wiring=TRAINED, layers=LAYERS)
    unchecked = _commands(verify_contract(tmp_path).findings, "serving-unchecked")
    assert unchecked[0] == f"hsforensics contract verify {tmp_path} --engine ENGINE==VERSION"
    broken = verify_contract(tmp_path, engines="sglang==0.5.16", architecture=KIMI)
    assert _commands(broken.findings, "config-serves-other") == (
        f"hsforensics fix-config {tmp_path} --wiring 3,31,59 --engine sglang==0.5.16 --architecture {KIMI} --layers 61",
    )


def test_refusals_name_what_is_known_too(tmp_path: Path) -> None:
    world = make_world()
    dump, other = _dump(world, tmp_path / "dump"), write_bank(make_world(1), tmp_path / "other")
    with pytest.raises(HsfError) as refused:
        compare(dump, other)
    assert refused.value.remedy.endswith(f"hsforensics capture {dump} --target MODEL --out BANK")
    with pytest.raises(HsfError) as asked:
        open_data(dump, [(3, 6, 9)], (), write_target(world, tmp_path / "target"))
    assert asked.value.remedy.endswith(f"hsforensics capture {dump} --target {tmp_path / 'target'} --out BANK")
    with pytest.raises(HsfError) as torn:
        verify_contract(dump)
    assert str(dump) in torn.value.where


def test_words_of_a_provenance_are_what_is_there() -> None:
    origin = Provenance("0", (), "", capture_path="nowhere/at/all", engine="transformers", engine_version="5.0")
    assert known_words(origin) == {}
    assert known_words(origin, "vllm==0.33.0") == {"ENGINE==VERSION": "vllm==0.33.0"}
    assert json.dumps(known_words(Provenance("0", (), "", target_wrapper=KIMI, layers=61))) == json.dumps(
        {"CLASS": KIMI, "LAYERS": "61"}
    )
