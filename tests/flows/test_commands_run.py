"""Commands in refusals, caveats and findings run as pasted: whole, and with known words filled in."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from hsforensics.cli.main import app
from hsforensics.errors import HsfError
from hsforensics.flows.compare import compare
from hsforensics.flows.contract import write_contract
from hsforensics.flows.fix_config import fix_config
from hsforensics.flows.rules import rules
from hsforensics.flows.verify_contract import verify_contract
from hsforensics.report.fix_config import outcome
from hsforensics.rules.lookup import caveats_for
from tests.incident import KIMI, LAYERS, TRAINED, WIDTH, write_config
from tests.world import HIDDEN, make_world, write_bank, write_dump, write_target

OPTIONS: dict[str, Any] = {"architecture": KIMI, "layers": LAYERS}


def _command(text: str) -> list[str]:
    """The command that a text ends with."""
    return shlex.split(text[text.index("hsforensics ") :])[1:]


def test_a_wiring_that_does_not_ascend_is_answered_by_the_whole_call(tmp_path: Path) -> None:
    drafter = tmp_path / "my drafter"
    drafter.mkdir()
    write_config(drafter)
    save_file({"fc.weight": torch.randn(WIDTH, 3 * WIDTH)}, drafter / "model.safetensors")
    with pytest.raises(HsfError) as caught:
        fix_config(drafter, engine="sglang==0.5.16", wiring=(31, 3, 59), **OPTIONS)
    words = _command(caught.value.remedy)
    made = tmp_path / "permuted"
    done = CliRunner().invoke(app, [str(made) if word == "PERMUTED" else word for word in words])
    assert done.exit_code == 0, done.output
    assert (made / "config.json").is_file()
    (way, *_) = rules(engine="sglang==0.5.16", states=(31, 3, 59), **OPTIONS).alternatives
    assert _command(way.cost) == ["DRAFTER" if word == str(drafter) else word for word in words]


def test_a_version_newer_than_known_is_answered_by_a_call_that_reads_its_code() -> None:
    (text,) = (
        item.text
        for item in caveats_for("sglang", "99.0", KIMI, at_default=False)
        if item.text.startswith("newer than")
    )
    assert _command(text) == ["rules", "--introspect", "installed", "--architecture", KIMI]
    (other,) = (
        item.text for item in caveats_for("vllm", "99.0", KIMI, at_default=False) if item.text.startswith("newer than")
    )
    assert "introspect" not in other  # which reads SGLang only


def test_a_contract_names_the_target_that_was_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where the capture's own word for its target leads to it
    world, drafter = make_world(), tmp_path / "drafter"
    drafter.mkdir()
    write_config(drafter, hidden_size=HIDDEN)
    write_target(world, tmp_path / "target")
    other = make_world(seed=5)
    write_contract(drafter, wiring=(3,), samples=[(other.tokens[0], [other.banks[0][3]])])
    result = verify_contract(drafter, capture=write_bank(world, tmp_path / "bank"))
    (found,) = (item for item in result.findings if item.code == "tokens-unmatched")
    assert "--target target --draft" in found.commands[0]


def test_a_target_that_compare_was_given_is_named_by_fix_config_too(tmp_path: Path) -> None:
    world, drafter = make_world(), tmp_path / "drafter"
    drafter.mkdir()
    write_config(drafter, hidden_size=HIDDEN)
    target, dump = write_target(world, tmp_path / "target"), write_dump(world, tmp_path / "dump", (3, 6, 9, 12))
    found = compare(dump, write_bank(world, tmp_path / "live", (2, 5, 8)), target=target, drafter=drafter)
    done = fix_config(drafter, report=found, write=True)
    assert f"--target {target} " in done.next_commands[0]


@pytest.mark.parametrize(
    ("engines", "commands", "said"),
    [
        (("sglang==0.5.16",), 2, "Next: restart the engine, capture it, and compare again."),
        (("vllm==0.33.0",), 0, "vllm==0.33.0: nothing here records it; what it serves stays a prediction"),
        (("sglang==0.5.16", "vllm==0.33.0"), 2, "compare again; for sglang==0.5.16."),
        (("vllm==0.33.0", "sglang==0.5.16"), 2, "vllm==0.33.0: nothing here records it"),
        (("sglang==0.5.16", "sglang==0.5.17"), 2, "for each of sglang==0.5.16, sglang==0.5.17."),
    ],
)
def test_each_engine_of_a_fix_has_its_next_step(
    tmp_path: Path, engines: tuple[str, ...], commands: int, said: str
) -> None:
    write_config(tmp_path)
    done = fix_config(tmp_path, engine=engines, wiring=TRAINED, write=True, **OPTIONS)
    assert len(done.next_commands) == commands
    assert said in outcome(done)
