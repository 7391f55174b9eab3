"""What compare is given as a drafter: a broken config and the target are refused, what is missing is told."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from hsforensics.errors import HsfError
from hsforensics.flows.compare import compare
from hsforensics.flows.fingerprint import fingerprint
from hsforensics.results import CompareResult
from hsforensics.states import POSTNORM
from tests.incident import write_config
from tests.world import HIDDEN, make_world, write_bank, write_dump, write_target


def _drafter(path: Path, **tensors: torch.Tensor) -> Path:
    path.mkdir()
    write_config(path, hidden_size=HIDDEN, eagle_config={"eagle_aux_hidden_state_layer_ids": [2, 5, 8]})
    if tensors:
        save_file({name.replace("_", "."): value for name, value in tensors.items()}, path / "model.safetensors")
    return path


def _compare(tmp_path: Path, drafter: Path | None, **options: Any) -> CompareResult:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, POSTNORM))
    return compare(dump, write_bank(world, tmp_path / "bank"), drafter=drafter, **options)


def _found(result: CompareResult, code: str) -> list[str]:
    return [item.message for item in result.findings if item.code == code]


@pytest.mark.parametrize("engine", [None, "sglang==0.5.12.post1"])
@pytest.mark.parametrize("text", ["{", "", "[]", '{"a": 1, "a": 2}', "\ufeff{}", "\x00"])
def test_a_broken_config_is_refused_whatever_else_is_given(tmp_path: Path, text: str, engine: str | None) -> None:
    drafter = _drafter(tmp_path / "drafter", fc_weight=torch.zeros(2, 3 * HIDDEN))
    (drafter / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(HsfError) as caught:
        _compare(tmp_path, drafter, engine=engine)
    assert (caught.value.code, Path(caught.value.where).name) == ("drafter-unreadable", "config.json")


@pytest.mark.parametrize("tensors", [{}, {"norm_weight": torch.ones(HIDDEN)}, {"fc_weight": torch.ones(2, 3 * HIDDEN)}])
def test_a_drafter_without_fc_is_told(tmp_path: Path, tensors: dict[str, torch.Tensor]) -> None:
    result = _compare(tmp_path, _drafter(tmp_path / "drafter", **tensors))
    words = "no weights lie beside" if not tensors else "hold no fc.weight"
    told = _found(result, "fc-unread")
    assert len(told) == ("fc_weight" not in tensors)
    assert all(words in message for message in told)
    assert result.trained_wiring == (3, 6, 9)


@pytest.mark.parametrize("given", ["target", "capture", "both", "fingerprint"])
@pytest.mark.parametrize("copied", [False, True])
def test_the_target_is_no_drafter(tmp_path: Path, given: str, copied: bool) -> None:
    world = make_world()
    target, bank = write_target(world, tmp_path / "target"), write_bank(world, tmp_path / "bank")
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, POSTNORM))
    draft = Path(shutil.copytree(target, tmp_path / "copy")) if copied else target
    if given == "fingerprint":
        fingerprint(bank, tmp_path / "bank.fp")
        bank = tmp_path / "bank.fp"
    with pytest.raises(HsfError, match="is the target, not a drafter") as caught:
        compare(
            dump,
            None if given == "target" else bank,
            target=target if given in ("target", "both") else None,
            drafter=draft,
        )
    assert (caught.value.code, caught.value.where) == ("usage", "--draft")


@pytest.mark.parametrize(
    "options", [{"engine": "sglang==0.5.16"}, {"architecture": "LlamaForCausalLM"}, {"introspect": "installed"}]
)
def test_a_prediction_that_was_asked_for_but_cannot_be_is_told(tmp_path: Path, options: dict[str, str]) -> None:
    result = _compare(tmp_path, None, **options)
    assert result.predicted is None
    (told,) = (item for item in result.findings if item.code == "not-predicted")
    ((option, value),) = options.items()
    assert (told.severity, told.where) == ("warning", f"--{option} {value}")


def test_nothing_is_told_where_all_is_given_or_nothing_asked(tmp_path: Path) -> None:
    drafter = _drafter(tmp_path / "drafter", fc_weight=torch.ones(2, 3 * HIDDEN))
    whole = _compare(tmp_path / "a", drafter, engine="sglang==0.5.12.post1")
    plain = _compare(tmp_path / "b", None)
    assert {"fc-unread", "not-predicted"}.isdisjoint(item.code for item in (*whole.findings, *plain.findings))
