"""A few bad rows do not change what a channel is; they are told all the same, with file, channel and rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsforensics.flows.compare import compare
from hsforensics.results import CompareResult
from hsforensics.states import Finding, State
from tests.world import HIDDEN, LAYERS, World, make_world, write_bank, write_dump, write_target

TRAINED: tuple[State, ...] = (3, 6, 9, LAYERS)
LENGTHS = (240, 250, 260)
ROWS = slice(100, 104)
Damage = Callable[[dict[State, Tensor], Tensor], Tensor]


def put(values: Tensor, rows: Tensor | float) -> Tensor:
    values = values.clone()
    values[ROWS] = rows
    return values


KINDS: dict[str, tuple[Damage, str]] = {
    "zero": (lambda bank, values: put(values, 0.0), "rows-constant"),
    "constant": (lambda bank, values: put(values, 3.0), "rows-constant"),
    "repeating the row before": (lambda bank, values: put(values, values[99]), "rows-constant"),
    "of other tokens": (lambda bank, values: put(values, values[50:54]), "rows-duplicate"),
    "of another state": (lambda bank, values: put(values, bank[9][ROWS]), "rows-disagree"),
    "of no state": (lambda bank, values: put(values, 20 * torch.randn(4, HIDDEN)), "rows-disagree"),
}


@pytest.fixture(scope="module")
def world() -> World:
    world = make_world(lengths=LENGTHS)
    for number, tokens in enumerate(world.tokens):  # every token its own, or repeated rows might be right
        tokens[95:110] = torch.arange(15) + 20 * number
        tokens[48:60] = torch.arange(12) + 60 + 3 * number
    return world


def damage(dump: Path, world: World, change: Damage, files: range, slot: int = 1) -> None:
    for number in files:
        sample = torch.load(dump / f"data_{number}.pt", weights_only=True)
        sample["hidden_states"][slot] = change(world.banks[number], sample["hidden_states"][slot])
        torch.save(sample, dump / f"data_{number}.pt")


def told(result: CompareResult, code: str) -> list[Finding]:
    return [item for item in result.findings if item.code == code]


@pytest.mark.parametrize("files", [range(1, 2), range(3)], ids=["one file", "every file"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_few_bad_rows_are_a_warning_beside_a_right_wiring(
    tmp_path: Path, world: World, kind: str, files: range
) -> None:
    change, code = KINDS[kind]
    dump, capture = write_dump(world, tmp_path / "d", TRAINED), write_bank(world, tmp_path / "c", TRAINED[:3])
    assert not [item for item in compare(dump, capture).findings if item.severity != "info"]
    damage(dump, world, change, files)
    result = compare(dump, capture)
    assert result.verdict == "aligned"
    found = told(result, code)
    assert [item.severity for item in found] == ["warning"]
    assert found[0].where == f"{', '.join(f'data_{number}.pt' for number in files)}, hidden_states[1]"
    assert "100-103" in found[0].evidence
    assert {item.severity for item in result.findings} == {"info", "warning"}


@pytest.mark.parametrize("kind", [kind for kind, (_, code) in KINDS.items() if code != "rows-disagree"])
def test_they_are_told_without_a_bank_too(tmp_path: Path, world: World, kind: str) -> None:
    change, code = KINDS[kind]
    dump, target = write_dump(world, tmp_path / "d", TRAINED), write_target(world, tmp_path / "t")
    damage(dump, world, change, range(2, 3))
    (found,) = told(compare(dump, target=target), code)
    assert (found.severity, found.where) == ("warning", "data_2.pt, hidden_states[1]")
    assert "100-103" in found.evidence


def test_rows_of_a_sample_before_are_told(tmp_path: Path, world: World) -> None:
    dump, capture = write_dump(world, tmp_path / "d", TRAINED), write_bank(world, tmp_path / "c", TRAINED[:3])
    damage(dump, world, lambda _, values: put(values, world.banks[0][6][ROWS]), range(1, 2))
    result = compare(dump, capture)
    (found,) = told(result, "rows-stale")
    assert (result.verdict, found.severity, found.where) == ("aligned", "warning", "data_1.pt, hidden_states[1]")


def test_rows_that_a_request_was_served_are_counted_in_the_request(tmp_path: Path, world: World) -> None:
    odd = make_world(lengths=LENGTHS)
    for number, (tokens, bank) in enumerate(zip(odd.tokens, odd.banks, strict=True)):
        tokens.copy_(world.tokens[number])
        bank["odd"] = put(bank[6], bank[9][ROWS])
    tails = World(
        world.embedding,
        world.gain,
        tuple(tokens[30:] for tokens in world.tokens),
        tuple({state: rows[30:] for state, rows in bank.items()} for bank in world.banks),
    )
    dump = write_dump(tails, tmp_path / "d", TRAINED)
    result = compare(dump, write_bank(odd, tmp_path / "c", (3, "odd", 9), states=world.states))
    (found,) = told(result, "rows-disagree")
    assert (result.verdict, found.severity) == ("aligned", "warning")
    assert "data_0.pt 100-103" in found.evidence


def test_tokens_that_share_an_embedding_row_or_have_none_are_no_fault(tmp_path: Path) -> None:
    world = make_world(lengths=LENGTHS)
    world.embedding[7] = world.embedding[8]
    world.embedding[9] = 0.0
    for tokens, bank in zip(world.tokens, world.banks, strict=True):
        tokens[100:103] = torch.tensor([7, 8, 9])
        bank[0] = world.embedding[tokens]
    dump = write_dump(world, tmp_path / "d", (0, 6, 9, LAYERS))
    for result in (
        compare(dump, write_bank(world, tmp_path / "c", (0, 6, 9))),
        compare(dump, target=write_target(world, tmp_path / "t")),
    ):
        assert not [item.code for item in result.findings if item.code.startswith("rows-")]


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.1, 0.12])
def test_noise_and_sinks_are_no_bad_rows(tmp_path: Path, noise: float) -> None:
    world = make_world(lengths=LENGTHS)
    for bank in world.banks:
        for rows in bank.values():
            rows[0] *= 150.0
    capture = write_bank(world, tmp_path / "c", TRAINED[:3])
    result = compare(write_dump(world, tmp_path / "d", TRAINED, noise=noise), capture)
    assert result.verdict == "aligned"
    assert not [item.code for item in result.findings if item.code.startswith("rows-")]
