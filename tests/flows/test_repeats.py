"""Tokens count once, whatever number of files holds them; a wrong file never hides behind a right one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsforensics.flows.compare import compare
from hsforensics.flows.repeats import Item, Repeats, find_repeats, repeat_findings
from hsforensics.results import CompareResult
from hsforensics.states import POSTNORM, Finding, State
from tests.world import World, disturb, make_world, write_bank, write_dump, write_target

AUX: tuple[State, ...] = (3, 6, 9)
TRUTH: tuple[State, ...] = (*AUX, POSTNORM)
INCIDENT = Path(__file__).resolve().parents[2] / "fixtures" / "incident"


def repeated(result: CompareResult) -> list[Finding]:
    return [item for item in result.findings if item.code == "sequences-repeated"]


def codes(result: CompareResult) -> set[str]:
    return {item.code for item in result.findings}


def change(file: Path, edit: Callable[[list[Tensor]], object]) -> None:
    sample = torch.load(file, weights_only=True)
    edit(sample["hidden_states"])
    torch.save(sample, file)


def clone(dump: Path, source: int, *numbers: int) -> None:
    for number in numbers:
        shutil.copy(dump / f"data_{source}.pt", dump / f"data_{number}.pt")


def shaky(world: World) -> World:
    """State 6 is so noisy in the dump that some rows vote for its neighbours, in each sequence another share."""
    generator = torch.Generator().manual_seed(1)
    banks = []
    for number, bank in enumerate(world.banks):
        copy = dict(bank)
        copy[6] = disturb(bank[6], 0.2, generator)
        copy[6][: 3 + 4 * number] = bank[7][: 3 + 4 * number]
        banks.append(copy)
    return World(world.embedding, world.gain, world.tokens, tuple(banks))


def test_the_incidents_shared_prefixes_count_once() -> None:
    result = compare(INCIDENT / "dumps", INCIDENT / "captures" / "situation-a")
    assert (result.verdict, result.tokens, result.sequences) == ("aligned", 160, 8)
    assert {record.tokens for record in result.channels} == {160}
    (note,) = repeated(result)
    assert note.severity == "info"
    assert note.message.startswith("2 of 10 samples repeat")
    assert note.message.endswith("8 sequences and 160 tokens count")
    assert note.evidence == "data_8.pt equals data_1.pt in all 20 rows that were compared"  # of 128 that differ
    assert note.remedy.startswith("Capture more tokens")
    assert result.alignments == {"prefix": 10}


def test_copies_change_no_number_of_a_comparison(tmp_path: Path) -> None:
    world = make_world()
    live = write_bank(world, tmp_path / "live", served=AUX)
    dump = write_dump(shaky(world), tmp_path / "dump", TRUTH)
    plain = compare(dump, live)
    assert plain.channels[1].votes_interval is not None
    assert plain.channels[1].votes_interval[0] < (plain.channels[1].votes or 0) < plain.channels[1].votes_interval[1]
    clone(dump, 1, *range(3, 12))
    copied = compare(dump, live)
    assert (copied.channels, copied.tokens, copied.sequences) == (plain.channels, plain.tokens, plain.sequences)
    assert copied.groups[0].samples == 12  # groups are about files
    assert [item.severity for item in repeated(copied)] == ["info"]
    assert repeated(plain) == []


def test_copies_alone_are_one_sequence_without_an_interval(tmp_path: Path) -> None:
    world = make_world(lengths=(40,))
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    clone(dump, 0, *range(1, 10))
    result = compare(dump, write_bank(world, tmp_path / "live", served=AUX))
    assert (result.tokens, result.sequences, result.channels[0].votes_interval) == (40, 1, None)
    assert "few-sequences" in codes(result)


def test_files_that_differ_by_rounding_are_judged_and_drawn_as_one_sequence(tmp_path: Path) -> None:
    world = make_world()
    dump, live = write_dump(world, tmp_path / "dump", TRUTH), write_bank(world, tmp_path / "live", served=AUX)
    generator = torch.Generator().manual_seed(2)
    for number in range(3, 9):
        clone(dump, 0, number)
        change(dump / f"data_{number}.pt", lambda values: values.__setitem__(0, disturb(values[0], 0.004, generator)))
    result = compare(dump, live)
    assert (result.verdict, result.tokens, result.sequences) == ("aligned", 124, 3)
    assert result.channels[0].tokens == 124 + 6 * 40
    (note,) = repeated(result)
    assert note.severity == "info"
    assert "6 of 9 samples hold other rows, or other values, of an earlier one's sequence" in note.message
    assert "is 0.004 from data_0.pt in 40 rows of both" in note.evidence


@pytest.mark.parametrize("copies", [1, 40])
def test_a_wrong_file_does_not_hide_behind_right_copies(tmp_path: Path, copies: int) -> None:
    world = make_world()
    dump, live = write_dump(world, tmp_path / "dump", TRUTH), write_bank(world, tmp_path / "live", served=AUX)
    clone(dump, 0, *range(3, 3 + copies))
    wrong = dump / f"data_{2 + copies}.pt"
    change(wrong, lambda values: values.__setitem__(1, world.banks[0][7]))  # one of its channels, by one layer
    result = compare(dump, live)
    assert result.verdict != "aligned"
    assert "set-mixed" in codes(result)
    assert any(wrong.name in item.where for item in result.findings if item.code == "set-mixed")
    warned = [item for item in repeated(result) if item.severity == "warning"]
    assert [item.where for item in warned] == [wrong.name]
    assert (result.tokens, result.sequences) == (124, 3)


def test_files_of_one_sequence_that_disagree_never_make_a_majority_certain(tmp_path: Path) -> None:
    """Three files of the same tokens, two of which hold one state: too few to settle which."""
    world = make_world(lengths=(40,))
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    clone(dump, 0, 1, 2)
    generator = torch.Generator().manual_seed(3)
    change(dump / "data_1.pt", lambda values: values.__setitem__(1, disturb(values[1], 0.004, generator)))
    change(dump / "data_2.pt", lambda values: values.__setitem__(1, world.banks[0][9]))
    result = compare(dump, write_bank(world, tmp_path / "bank"))
    assert (result.sequences, result.channels[1].identity) == (1, "ambiguous")


def test_the_rest_of_a_copy_is_still_checked(tmp_path: Path) -> None:
    """A capture holds the first rows only; what a copy holds after them is its own."""
    world = make_world()
    dump, live = write_dump(world, tmp_path / "dump", TRUTH), write_bank(world, tmp_path / "live", AUX, rows=20)
    clone(dump, 0, 3)
    change(dump / "data_3.pt", lambda values: values[1][30:].fill_(float("nan")))
    result = compare(dump, live)
    assert (result.tokens, result.sequences) == (60, 3)
    assert [item.where for item in result.findings if item.code == "channel-unreadable"] == [
        "data_3.pt, hidden_states[1]"
    ]


def test_a_fault_of_a_request_is_named_once_for_all_files_of_it(tmp_path: Path) -> None:
    world = make_world()
    broken = make_world()
    broken.banks[0][6][5, 2] = float("nan")
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    live = write_bank(broken, tmp_path / "live", served=AUX)
    clone(dump, 0, 3, 4)
    found = [item for item in compare(dump, live).findings if item.where.startswith("request of")]
    assert [item.where for item in found] == ["request of data_0.pt, served.1"]


def test_without_a_capture_copies_count_once_too(tmp_path: Path) -> None:
    world = make_world()
    dump, target = write_dump(world, tmp_path / "dump", (0, 6, 9, POSTNORM)), write_target(world, tmp_path / "target")
    plain = compare(dump, target=target)
    clone(dump, 2, 3, 4)
    copied = compare(dump, target=target)
    assert (copied.channels, copied.tokens, copied.sequences) == (plain.channels, 124, 3)
    assert repeated(copied)[0].message.startswith("2 of 5 samples")


def items(*held: tuple[str, int, int, float]) -> Repeats:
    """Items of (sequence, first row, rows, value)."""
    made = [
        Item(f"{number}", name, ((start, rows),), (torch.full((rows, 4), value),))
        for number, (name, start, rows, value) in enumerate(held)
    ]
    return find_repeats(made)


def two_texts(world: World, shared: int) -> World:
    """The same with a last sequence that begins like the first one and goes on otherwise."""
    tokens, bank = world.tokens[0].flip(0), {state: values.flip(0) for state, values in world.banks[0].items()}
    tokens[:shared] = world.tokens[0][:shared]
    for state, values in bank.items():
        values[:shared] = world.banks[0][state][:shared]
    return World(world.embedding, world.gain, (*world.tokens, tokens), (*world.banks, bank))


@pytest.mark.parametrize(
    ("rows", "repeats", "evidence", "remedy"),
    [
        (20, "texts", "data_3.pt equals data_0.pt in all 20 rows that were compared", "Capture more tokens"),
        (20, "files", "data_3.pt equals data_0.pt in all 20 rows that were compared", "Use distinct sequences"),
        (None, "files", "data_3.pt is a copy of data_0.pt", "Use distinct sequences"),
        (None, "texts", None, None),
    ],
)
def test_only_what_was_compared_is_called_equal(
    tmp_path: Path, rows: int | None, repeats: str, evidence: str | None, remedy: str | None
) -> None:
    """Two texts that begin alike under a capture of the first rows are no copies, as two files of one text are."""
    world = two_texts(make_world(), shared=30)
    if repeats == "files":
        world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    live = write_bank(world, tmp_path / "live", served=AUX, rows=rows)
    if repeats == "files":
        clone(dump, 0, 3)
    found = [(note.evidence, note.remedy[: len(remedy or "")]) for note in repeated(compare(dump, live))]
    assert found == ([] if evidence is None else [(evidence, remedy)])


def test_the_start_of_a_longer_file_is_a_part_and_no_other_bits(tmp_path: Path) -> None:
    world = make_world()
    dump, live = write_dump(world, tmp_path / "dump", TRUTH), write_bank(world, tmp_path / "live", served=AUX)
    sample = torch.load(dump / "data_0.pt", weights_only=True)
    part = {"input_ids": sample["input_ids"][:25], "loss_mask": sample["loss_mask"][:25]}
    torch.save({**part, "hidden_states": [values[:25] for values in sample["hidden_states"]]}, dump / "data_3.pt")
    (note,) = repeated(compare(dump, live))
    assert (note.severity, note.evidence) == ("info", "data_3.pt is 0 from data_0.pt in 25 rows of both")
    assert "not its bits" not in note.message
    assert note.remedy.startswith("Use distinct sequences")


def test_a_copy_of_a_later_file_is_found_and_parts_of_a_sequence_are_one() -> None:
    found = items(("a", 0, 8, 1.0), ("a", 0, 8, 2.0), ("a", 0, 8, 2.0), ("b", 0, 8, 2.0), ("a", 6, 4, 1.001))
    assert found.sequence == (0, 0, 0, 3, 0)
    assert found.window == (0, 0, 0, 3, 4)
    assert found.original == (0, 1, 1, 3, 4)
    assert found.unit == (0, 1, 1, 3, 0)
    assert (found.sequences, found.tokens) == (2, 18)
    assert [item.severity for item in repeat_findings(found)] == ["info", "warning"]


def test_stretches_of_one_request_are_one_sequence_even_without_a_common_row() -> None:
    found = items(("a", 0, 8, 1.0), ("a", 8, 4, 2.0))
    assert (found.sequences, found.tokens, found.unit) == (1, 12, (0, 0))
    (note,) = repeat_findings(found)
    assert (note.severity, note.evidence) == ("info", "1 shares no row with 0")


def test_distinct_sequences_and_none_at_all_repeat_nothing() -> None:
    assert repeat_findings(items(("a", 0, 8, 1.0), ("b", 0, 8, 1.0))) == []
    assert (find_repeats([]).sequences, find_repeats([]).tokens) == (0, 0)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.bfloat16, torch.float32])
def test_a_copy_is_one_in_every_dtype_and_with_nan(dtype: torch.dtype) -> None:
    values = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    values[3] = float("nan")
    made = [Item(name, "a", ((0, 8),), (values.to(dtype).clone(),)) for name in "xy"]
    assert find_repeats(made).original == (0, 0)
