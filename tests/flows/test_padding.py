"""Zero rows at the very end where no text is are padding, and no fault; every other zero row stays one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsforensics.flows.compare import compare
from hsforensics.flows.padding import without_padding
from hsforensics.models.target import load_target
from hsforensics.results import CompareResult
from hsforensics.states import POSTNORM, Channel, Finding, Sample, State
from tests.world import World, make_world, write_bank, write_dump, write_target

AUX: tuple[State, ...] = (3, 6, 9)
TRUTH: tuple[State, ...] = (*AUX, POSTNORM)
LENGTHS = (20, 14, 25)
PAD = 96


def world() -> World:
    made = make_world(lengths=LENGTHS)
    for ids in made.tokens:
        ids[ids == PAD] = 0  # the padding token is none of the text's
    return made


def padded(path: Path, rows: int = 1, *, mask: int | None = 0, token: int = PAD, only: tuple[int, ...] = ()) -> Path:
    """A dump whose samples end in zero rows of one token; in all channels, or in some ``only``."""
    write_dump(world(), path, TRUTH)
    for file in path.glob("data_*.pt"):
        sample = torch.load(file, weights_only=True)
        ids = sample["input_ids"]
        sample["input_ids"] = torch.cat([ids, torch.full((rows,), token)])
        sample["hidden_states"] = [
            torch.cat([values, values.new_zeros(rows, values.shape[1]) + float(bool(only) and place not in only)])
            for place, values in enumerate(sample["hidden_states"])
        ]
        del sample["loss_mask"]
        if mask is not None:
            sample["loss_mask"] = torch.cat([torch.ones_like(ids), torch.full((rows,), mask)])
        torch.save(sample, file)
    return path


def live(path: Path) -> Path:
    return write_bank(world(), path, served=AUX)


def of(result: CompareResult, code: str) -> list[Finding]:
    return [item for item in result.findings if item.code == code]


@pytest.mark.parametrize("rows", [1, 3])
def test_masked_padding_is_told_with_its_rows_and_disturbs_nothing(tmp_path: Path, rows: int) -> None:
    plain = compare(write_dump(world(), tmp_path / "plain", TRUTH), live(tmp_path / "live"))
    result = compare(padded(tmp_path / "dump", rows), tmp_path / "live")
    assert (result.verdict, result.trained_wiring) == ("aligned", AUX)
    assert (result.channels, result.tokens, result.alignments) == (plain.channels, sum(LENGTHS), {"same": 3})
    (note,) = of(result, "rows-padding")
    assert note.severity == "info"
    assert note.message.startswith(f"{3 * rows} rows at the end of 3 of 3 samples are padding")
    first = "row 20" if rows == 1 else "rows 20 to 22"
    assert note.evidence.startswith(f"data_0.pt {first}, data_1.pt row")
    assert [item for item in result.findings if item.severity != "info"] == []


def test_padding_that_is_trained_on_is_a_warning(tmp_path: Path) -> None:
    result = compare(padded(tmp_path / "dump", mask=1), live(tmp_path / "live"))
    (note,) = of(result, "rows-padding")
    assert (note.severity, result.verdict) == ("warning", "aligned")
    assert "no loss mask leaves them out" in note.message
    assert of(result, "rows-constant") == []


def test_one_token_of_zero_rows_alone_is_padding_without_mask_and_target(tmp_path: Path) -> None:
    result = compare(padded(tmp_path / "dump", mask=None), live(tmp_path / "live"))
    assert [item.severity for item in of(result, "rows-padding")] == ["warning"]
    assert of(result, "rows-constant") == []


def test_a_single_zero_row_of_an_unknown_token_stays_a_fault_until_the_target_names_the_token(tmp_path: Path) -> None:
    dump, bank = padded(tmp_path / "dump", mask=None), live(tmp_path / "live")
    for number in (0, 2):
        (dump / f"data_{number}.pt").unlink()
    alone = compare(dump, bank)
    assert (alone.verdict, of(alone, "rows-padding")) == ("undecided", [])
    assert {item.severity for item in of(alone, "rows-constant")} == {"error"}
    target = write_target(world(), tmp_path / "target")
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | {"eos_token_id": [5, PAD]}))
    named = compare(dump, bank, target=target)
    assert (named.verdict, of(named, "rows-constant")) == ("aligned", [])
    assert [item.evidence for item in of(named, "rows-padding")] == ["data_1.pt row 14"]


def zero_in_the_middle(values: list[Tensor]) -> None:
    for channel in values:
        channel[7] = 0


def zero_before_the_end(values: list[Tensor]) -> None:
    for channel in values:
        channel[-2] = 0


def all_zero(values: list[Tensor]) -> None:
    for channel in values:
        channel[:] = 0


@pytest.mark.parametrize("edit", [zero_in_the_middle, zero_before_the_end, all_zero])
def test_a_zero_row_that_is_not_at_the_very_end_stays_a_fault(
    tmp_path: Path, edit: Callable[[list[Tensor]], None]
) -> None:
    dump = write_dump(world(), tmp_path / "dump", TRUTH)
    for file in dump.glob("data_*.pt"):
        sample = torch.load(file, weights_only=True)
        edit(sample["hidden_states"])
        sample["loss_mask"][5:] = 0
        torch.save(sample, file)
    bank = live(tmp_path / "live")
    if edit is all_zero:
        (dump / "data_0.pt").unlink()
        write_dump(world(), tmp_path / "whole", TRUTH)
        (tmp_path / "whole" / "data_0.pt").rename(dump / "data_0.pt")
    result = compare(dump, bank)
    assert of(result, "rows-padding") == []
    assert {item.severity for item in of(result, "rows-constant")} == {"error"}
    assert result.verdict != "aligned"


@pytest.mark.parametrize("only", [(0,), (0, 1, 2)])
def test_zeros_in_some_channels_only_are_no_padding(tmp_path: Path, only: tuple[int, ...]) -> None:
    result = compare(padded(tmp_path / "dump", only=only), live(tmp_path / "live"))
    assert of(result, "rows-padding") == []


def test_zeros_at_the_end_that_are_trained_on_and_of_text_stay_a_fault(tmp_path: Path) -> None:
    """The tail of a buffer that was never filled: its tokens are words."""
    dump = write_dump(world(), tmp_path / "dump", TRUTH)
    for file in dump.glob("data_*.pt"):
        sample = torch.load(file, weights_only=True)
        for values in sample["hidden_states"]:
            values[-4:] = 0
        torch.save(sample, file)
    result = compare(dump, live(tmp_path / "live"))
    assert of(result, "rows-padding") == []
    assert len(of(result, "rows-constant")) == 4  # one for each channel


def sample(zeros: int, mask: list[int] | None, tokens: list[int]) -> Sample:
    values = torch.ones(len(tokens), 4)
    values[len(tokens) - zeros :] = 0
    held = None if mask is None else torch.tensor(mask)
    return Sample("s", Path("s"), torch.tensor(tokens), (Channel(0, "a", None, values),), held)


@pytest.mark.parametrize(
    ("zeros", "mask", "tokens", "left"),
    [
        (2, [1, 1, 0, 0], [1, 2, 3, 4], 2),  # beyond the mask, whatever the tokens
        (3, [1, 1, 0, 0], [1, 2, 3, 4], 2),  # row 1 is trained on, and zero: a fault
        (2, [0, 0, 0, 0], [1, 2, 3, 4], 4),  # a mask of zeros says nothing
        (2, [1, 1, 0], [1, 2, 3, 4], 4),  # nor does one of another length
        (2, None, [1, 2, 9, 9], 2),  # 9 is a padding token
        (2, None, [1, 2, 8, 8], 2),  # 8 is seen in empty rows only
        (2, None, [1, 8, 8, 8], 4),  # 8 is seen elsewhere
        (1, None, [1, 2, 3, 8], 4),  # a single row proves nothing
        (2, None, [1, 2, 3, 9], 3),  # row 2 is no padding
        (4, None, [9, 9, 9, 9], 4),  # nothing but zeros is no sample
        (0, [1, 1, 0, 0], [1, 2, 3, 4], 4),
    ],
)
def test_which_rows_are_cut_off(zeros: int, mask: list[int] | None, tokens: list[int], left: int) -> None:
    ((cut,), notes) = without_padding([sample(zeros, mask, tokens)], {9})
    assert (len(cut.token_ids), len(cut.channels[0].values)) == (left, left)
    assert len(notes) == (left < len(tokens))
    assert cut.loss_mask is None or len(cut.loss_mask) == (left if len(mask or []) == len(tokens) else 3)


def test_a_config_may_name_padding_tokens_in_any_way(tmp_path: Path) -> None:
    target = write_target(world(), tmp_path / "target")
    config = json.loads((target / "config.json").read_text())
    for held, ids in (
        ({}, set()),
        ({"pad_token_id": None, "eos_token_id": [1, 2]}, {1, 2}),
        ({"pad_token_id": 0}, {0}),
    ):
        (target / "config.json").write_text(json.dumps(config | held))
        assert load_target(target).padding_ids == ids
    (target / "config.json").write_text(json.dumps(config | {"pad_token_id": "x", "eos_token_id": [True, -1, 7]}))
    assert load_target(target).padding_ids == {7}
