"""A capture and a target that do not belong together are told apart by geometry, config and values."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hsforensics.capture.store import Capture, open_capture
from hsforensics.errors import HsfError
from hsforensics.flows.target_check import check_target
from hsforensics.models.target import Target, load_target
from hsforensics.states import Finding
from tests.world import HIDDEN, LAYERS, VOCAB, World, make_world, write_bank, write_target


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("target-check")


@pytest.fixture(scope="module")
def world() -> World:
    return make_world()


@pytest.fixture(scope="module")
def target(world: World, folder: Path) -> Target:
    return load_target(write_target(world, folder / "target"))


@pytest.fixture(scope="module")
def capture(world: World, target: Target, folder: Path) -> Capture:
    return belonging(open_capture(write_bank(world, folder / "bank")), target)


def belonging(capture: Capture, target: Target) -> Capture:
    """The capture under a manifest that names this target's config."""
    return replace(capture, manifest=replace(capture.manifest, target_config_sha256=target.config_sha256))


def severities(found: list[Finding]) -> list[tuple[str, str]]:
    return [(item.code, item.severity) for item in found]


def test_the_very_target_gives_no_finding(capture: Capture, target: Target) -> None:
    assert check_target(capture, target) == []


def test_another_config_over_the_same_values_is_a_warning(capture: Capture, target: Target) -> None:
    assert severities(check_target(capture, replace(target, config_sha256="1" * 64))) == [("target-differs", "warning")]


def test_another_model_of_the_same_shape_and_config_is_an_error(capture: Capture, target: Target, folder: Path) -> None:
    other = load_target(write_target(make_world(seed=1), folder / "other"))
    assert other.config_sha256 == target.config_sha256
    (found,) = check_target(capture, other)
    assert (found.code, found.severity) == ("target-differs", "error")
    assert "cosine" in found.evidence


def test_permuted_embedding_rows_are_an_error(world: World, capture: Capture, folder: Path) -> None:
    moved = replace(world, embedding=world.embedding.roll(1, dims=0))
    other = load_target(write_target(moved, folder / "permuted"))
    assert severities(check_target(capture, other)) == [("target-differs", "error")]


def test_an_embedding_multiplier_and_rounding_are_no_difference(world: World, target: Target, folder: Path) -> None:
    banks = tuple({name: (12.0 * x if name == 0 else x).bfloat16() for name, x in bank.items()} for bank in world.banks)
    scaled = replace(world, banks=banks, gain=world.gain.bfloat16())
    assert check_target(belonging(open_capture(write_bank(scaled, folder / "scaled")), target), target) == []


def test_rows_that_are_not_finite_and_foreign_tokens_are_left_to_others(
    world: World, target: Target, folder: Path
) -> None:
    banks = tuple({name: x.clone() for name, x in bank.items()} for bank in world.banks)
    for bank in banks:
        bank[0][1::2] = torch.nan
    tokens = tuple(ids.clone() for ids in world.tokens)
    tokens[0][0] = VOCAB + 5
    broken = replace(world, banks=banks, tokens=tokens)
    assert check_target(belonging(open_capture(write_bank(broken, folder / "broken")), target), target) == []


@pytest.mark.parametrize("spoil", [lambda x: x * torch.nan, None])
def test_without_values_only_the_config_speaks(
    spoil: Callable[[torch.Tensor], torch.Tensor] | None, world: World, target: Target, folder: Path
) -> None:
    if spoil is None:
        found = open_capture(write_bank(world, folder / "late"))
        found = replace(found, manifest=replace(found.manifest, states=found.manifest.states[1:]))
    else:
        banks = tuple({name: spoil(x) for name, x in bank.items()} for bank in world.banks)
        found = open_capture(write_bank(replace(world, banks=banks), folder / "nan"))
    assert check_target(belonging(found, target), target) == []
    other = replace(target, config_sha256="1" * 64)
    assert severities(check_target(found, other)) == [("target-differs", "warning")]


MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "layers": ({"layers": LAYERS + 1}, f"L {LAYERS}.*L {LAYERS + 1}"),
    "width": ({"hidden_size": 2 * HIDDEN}, f"width {HIDDEN}.*width {2 * HIDDEN}"),
    "class": ({"wrapper_class": "Qwen3ForCausalLM", "inner_class": "Qwen3ForCausalLM"}, "Llama.*Qwen3ForCausalLM"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_another_geometry_or_class_is_refused(case: str, capture: Capture, target: Target) -> None:
    changes, message = MISFITS[case]
    with pytest.raises(HsfError, match=message) as caught:
        check_target(capture, replace(target, **changes))
    assert caught.value.code == "target-foreign"


def test_the_language_model_alone_is_no_other_class(capture: Capture, target: Target) -> None:
    assert check_target(capture, replace(target, wrapper_class="LlavaForConditionalGeneration")) == []


def test_a_config_that_lies_about_the_width_is_refused(world: World, capture: Capture, folder: Path) -> None:
    path = write_target(replace(world, embedding=world.embedding[:, :-1].contiguous()), folder / "narrow")
    assert json.loads((path / "config.json").read_text())["hidden_size"] == HIDDEN
    with pytest.raises(HsfError, match="promises 48") as caught:
        check_target(capture, load_target(path))
    assert caught.value.code == "target-unreadable"
