"""Sets of which some files were made by another rule: every kind of difference is seen, named and never green."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsforensics.flows.compare import compare
from hsforensics.results import CompareResult
from hsforensics.states import POSTNORM, State
from tests.world import LAYERS, World, make_world, write_bank, write_dump, write_target

TRAINED: tuple[State, ...] = (3, 6, 9, LAYERS)
LENGTHS = (40, 48, 44, 52, 41, 47)
Change = Callable[[dict[State, Tensor], int], Tensor]


def noise(bank: dict[State, Tensor], state: int) -> Tensor:
    return 7.0 * torch.randn(bank[state].shape, generator=torch.Generator().manual_seed(state))


KINDS: dict[str, tuple[Change, str, str | None]] = {
    "another state": (lambda bank, state: bank[state + 2], "state {deeper}", None),
    "times 2": (lambda bank, state: bank[state] * 2, "state {state}, times 2", "scaled"),
    "times 1.1": (lambda bank, state: bank[state] * 1.1, "state {state} times 1.1", "scaled"),
    "a row late": (lambda bank, state: bank[state].roll(1, 0), "state {state}, 1 row late", "rows-lagged"),
    "no residual": (
        lambda bank, state: bank[state] - bank[state - 1],
        "what layer {before} adds, without the residual",
        "residual-missing",
    ),
    "no state": (noise, "no state", None),
}
"""What some files hold instead -> how to make it, what it is called, and the finding that names it."""


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(lengths=LENGTHS)


def rewrite(dump: Path, numbers: range, slots: range, world: World, change: Change) -> None:
    for number in numbers:
        sample = torch.load(dump / f"data_{number}.pt", weights_only=True)
        for slot in slots:
            sample["hidden_states"][slot] = change(world.banks[number], TRAINED[slot]).clone()  # type: ignore[arg-type]
        torch.save(sample, dump / f"data_{number}.pt")


def files(numbers: range) -> tuple[str, ...]:
    return tuple(f"data_{number}.pt" for number in numbers)


def found(result: CompareResult, code: str) -> list[tuple[str, str]]:
    return [(item.where, item.message + item.evidence) for item in result.findings if item.code == code]


@pytest.mark.parametrize("odd", [1, 2, 3, 5])
@pytest.mark.parametrize("slots", [range(1, 2), range(4)], ids=["one channel", "all channels"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_that_hold_something_else_are_a_group_of_their_own(
    tmp_path: Path, world: World, kind: str, slots: range, odd: int
) -> None:
    if kind == "another state" and len(slots) == 4:
        slots = range(3)  # nothing is two deeper than the last
    change, words, code = KINDS[kind]
    dump, capture = write_dump(world, tmp_path / "d", TRAINED), write_bank(world, tmp_path / "c", TRAINED[:3])
    rewrite(dump, range(6 - odd, 6), slots, world, change)
    result = compare(dump, capture)
    assert result.verdict != "aligned"
    sides = {group.names: group for group in result.groups}
    assert {names[:5] for names in (files(range(6 - odd)), files(range(6 - odd, 6)))} == set(sides)
    for number, group in enumerate((sides[files(range(6 - odd))[:5]], sides[files(range(6 - odd, 6))[:5]])):
        assert group.samples == (6 - odd, odd)[number]
        for slot, state in enumerate(TRAINED):
            assert isinstance(state, int)
            other = words.format(state=state, deeper=state + 2, before=state - 1)
            assert group.holds[slot] == (other if number and slot in slots else f"state {state}")
    (mixed,) = found(result, "set-mixed")
    assert set(mixed[0].split(", ")) == set(files(range(6 - odd, 6) if odd < 4 else range(1)))
    if code is not None:
        told = [text for where, text in found(result, code) if where == "hidden_states[1]"]
        assert [f"in {odd} of 6 samples" in text for text in told] == [True]
        assert all(name in told[0] for name in files(range(6 - odd, 6)))


def test_no_single_transform_is_told_of_a_channel_whose_files_differ(tmp_path: Path, world: World) -> None:
    dump, capture = write_dump(world, tmp_path / "d", TRAINED), write_bank(world, tmp_path / "c", TRAINED[:3])
    rewrite(dump, range(3, 6), range(1, 2), world, KINDS["times 2"][0])
    record = compare(dump, capture).channels[1]
    assert record.explanation == "state 6 in 3 of 6 samples; state 6, times 2 in 3 of 6 samples"
    assert record.explained is None


@pytest.mark.parametrize("kind", ["times 2", "a row late", "no state"])  # else the majority is a known state
def test_two_sides_that_agree_in_some_samples_only_are_not_said_to_agree(
    tmp_path: Path, world: World, kind: str
) -> None:
    dump, capture = write_dump(world, tmp_path / "d", TRAINED), write_bank(world, tmp_path / "c", TRAINED[:3])
    rewrite(dump, range(4, 6), range(1, 2), world, KINDS[kind][0])
    ((_, text),) = found(compare(dump, capture), "counterparts-agree")
    assert "in 4 of 6 samples only, not in data_4.pt, data_5.pt" in text
    assert f"in {sum(LENGTHS[:4]) / sum(LENGTHS):.1%} of the rows" in text


def test_rows_that_disagree_name_their_files(tmp_path: Path, world: World) -> None:
    dump, capture = write_dump(world, tmp_path / "d", TRAINED), write_bank(world, tmp_path / "c", TRAINED[:3])
    rewrite(dump, range(4, 5), range(1, 2), world, lambda bank, state: bank[state].flip(0))
    result = compare(dump, capture)
    ((_, away),) = found(result, "rows-disagree")
    assert "not in all rows of 1 of 6 sequences" in away
    assert "rows away: data_4.pt 4" in away  # 40 or 41 of its 41: the middle one stays in its place
    foreign = found(result, "rows-foreign")
    assert foreign
    assert all("data_4.pt" in text for _, text in foreign)


def test_requests_that_are_served_something_else_are_named(tmp_path: Path, world: World) -> None:
    odd = make_world(lengths=LENGTHS)
    for bank in odd.banks[4:]:
        bank["odd"] = bank[6] * 2
    for bank in odd.banks[:4]:
        bank["odd"] = bank[6]
    dump = write_dump(world, tmp_path / "d", TRAINED)
    capture = write_bank(odd, tmp_path / "c", (3, "odd", 9), states=world.states)
    result = compare(dump, capture)
    assert result.verdict != "aligned"
    ((where, text),) = found(result, "rows-disagree")
    assert where == "served.1"
    assert "state 6 in 4 of 6 requests; state 6, times 2 in 2 of 6 requests" in text
    assert "state 6, times 2: data_4.pt, data_5.pt" in text


@pytest.mark.parametrize("odd", [1, 2, 3])
@pytest.mark.parametrize(
    ("state", "slot", "other", "words"),
    [
        (0, 0, lambda bank: bank[3], "neither the embedding nor postnorm"),
        (0, 0, lambda bank: bank[0].roll(1, 0), "the embedding of the previous token"),
        (POSTNORM, 3, lambda bank: bank[9], "neither the embedding nor postnorm"),
    ],
)
def test_the_target_alone_shows_that_files_differ(
    tmp_path: Path,
    world: World,
    state: State,
    slot: int,
    other: Callable[[dict[State, Tensor]], Tensor],
    words: str,
    odd: int,
) -> None:
    wiring = (0, 6, 9, POSTNORM)
    dump, target = write_dump(world, tmp_path / "d", wiring), write_target(world, tmp_path / "t")
    assert len(compare(dump, target=target).groups) == 1
    rewrite(dump, range(6 - odd, 6), range(slot, slot + 1), world, lambda bank, _: other(bank))
    result = compare(dump, target=target)
    assert sorted((group.samples, group.holds[slot]) for group in result.groups) == sorted(
        [(6 - odd, "embedding (state 0)" if state == 0 else POSTNORM), (odd, words)]
    )
    assert [where for where, _ in found(result, "set-mixed")] == [", ".join(files(range(6 - odd, 6)))]
    if odd > 1:  # a majority, but not surely
        assert result.channels[slot].state is None
        assert result.channels[slot].explanation is not None


def test_a_healthy_set_is_one_group_under_noise(tmp_path: Path, world: World) -> None:
    capture = write_bank(world, tmp_path / "c", TRAINED[:3])
    for size in (0.0, 0.03, 0.1, 0.14, 0.16, 0.2, 0.3, 0.5, 0.9):
        result = compare(write_dump(world, tmp_path / f"d{size}", TRAINED, noise=size), capture)
        assert len(result.groups) <= 1, size
        assert not found(result, "set-mixed")
        assert not found(result, "rows-disagree") or size > 0.2
