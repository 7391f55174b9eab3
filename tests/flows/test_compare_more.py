"""``compare`` on real files: repeated captures, ranks, aliasing, health of samples, alignment of odd dumps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsforensics.capture.manifest import ManifestHeader, RequestTensors
from hsforensics.capture.store import write_capture
from hsforensics.errors import HsfError
from hsforensics.flows.compare import compare
from hsforensics.results import CompareResult
from hsforensics.states import POSTNORM, State
from tests.flows.test_compare import write_config
from tests.world import HIDDEN, LAYERS, World, make_world, write_bank, write_dump, write_target

TRUTH: tuple[State, ...] = (3, 6, 9, POSTNORM)


def codes(result: CompareResult) -> list[str]:
    return [item.code for item in result.findings]


def change(dump: Path, edit: Callable[[dict[str, object]], None]) -> Path:
    """Edit every sample file of a dump."""
    for file in dump.glob("*.pt"):
        sample = torch.load(file, weights_only=True)
        edit(sample)
        torch.save(sample, file)
    return dump


def test_the_noise_floor_of_repeated_captures_is_measured_and_forbids_a_match_when_too_high(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH, noise=0.01)
    bank, calm = write_bank(world, tmp_path / "bank"), write_bank(world, tmp_path / "calm", noise=0.01)
    quiet = compare(dump, bank, repeat=calm)
    assert quiet.trained_wiring == (3, 6, 9)
    assert quiet.channels[0].noise_floor == pytest.approx(0.01, rel=0.1)
    loud = compare(dump, bank, repeat=write_bank(world, tmp_path / "loud", noise=0.25))
    assert loud.trained_wiring is None
    assert {item.identity for item in loud.channels[:3]} == {"ambiguous"}
    assert "noise-floor" in codes(loud)


def write_rank(world: World, path: Path, share: float, serve: bool = True) -> Path:
    """A capture of one tensor-parallel rank: it serves state 6 as its middle state and a share of the MLP's output."""
    header = ManifestHeader(
        kind="live",
        engine="sglang",
        engine_version="0.5.16",
        dtype="float32",
        device="cpu",
        target_path="target",
        target_wrapper="LlamaForCausalLM",
        target_inner="LlamaForCausalLM",
        target_config_sha256="0" * 64,
        layers=LAYERS,
        hidden_size=HIDDEN,
        states=(*range(6), "mid:5", *range(6, LAYERS + 1), POSTNORM),
        served=3,
    )
    requests = []
    for tokens, bank in zip(world.tokens, world.banks, strict=True):
        middle = 0.5 * (bank[5] + bank[6])
        part = middle + share * (bank[6] - middle)
        served = (bank[3].clone(), part, bank[9].clone())
        held = {**bank, "mid:5": middle}
        states = {state: held[state] for state in header.states}
        requests.append(RequestTensors(tokens, torch.arange(len(tokens)), states, served))
    write_capture(path, header, requests)
    return path


def test_ranks_whose_sum_was_not_reduced_are_confirmed_by_adding_them_up(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    one, other = write_rank(world, tmp_path / "rank0", 0.4), write_rank(world, tmp_path / "rank1", 0.6)
    alone = compare(dump, one)
    assert alone.verdict != "aligned"
    both = compare(dump, one, ranks=(other,))
    sums = [item for item in both.findings if item.code == "partial-sum" and "ranks together" in item.message]
    assert [item.where for item in sums] == ["served.1"]
    assert "state 6" in sums[0].message
    stranger = write_rank(make_world(seed=4), tmp_path / "stranger", 0.6)
    assert "tokens-unmatched" in codes(compare(dump, one, ranks=(stranger,)))


def test_a_slot_deeper_than_the_rule_says_may_be_a_reused_buffer(tmp_path: Path) -> None:
    world = replace(make_world(), architecture="DeepseekV3ForCausalLM")
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    drafter = write_config(tmp_path / "drafter", [2, 5, 8])  # states 3, 6, 9 in this version
    aliased = compare(dump, write_bank(world, tmp_path / "live", served=(3, 6, 11)), drafter=drafter)
    assert "buffer-alias" in codes(aliased)
    shifted = compare(dump, write_bank(world, tmp_path / "shifted", served=(4, 7, 10)), drafter=drafter)
    assert "buffer-alias" not in codes(shifted)


def set_mask(value: int) -> Callable[[dict[str, object]], None]:
    return lambda sample: sample.update(loss_mask=torch.full_like(sample["input_ids"], value))  # type: ignore[call-overload]


def test_masks_tokens_and_dtypes_are_checked(tmp_path: Path) -> None:
    world = make_world()
    target = write_target(replace(world, extra={"vocab_size": 60}), tmp_path / "target")
    bank = write_bank(world, tmp_path / "bank")
    dump = change(write_dump(world, tmp_path / "dump", TRUTH), set_mask(1))
    full = compare(dump, bank, target=target)
    assert "mask-full" in codes(full)
    (invalid,) = (item for item in full.findings if item.code == "tokens-invalid")
    assert "0..59" in invalid.message
    assert "3 samples are so" in invalid.message
    assert "mask-empty" in codes(compare(change(dump, set_mask(0)), bank))

    def half(sample: dict[str, object]) -> None:
        states = sample["hidden_states"]
        assert isinstance(states, list)
        states[0] = states[0].half()

    assert "dtype-mixed" in codes(compare(change(dump, half), bank))


def keep_rows(start: int) -> Callable[[dict[str, object]], None]:
    def edit(sample: dict[str, object]) -> None:
        states = sample["hidden_states"]
        assert isinstance(states, list)
        sample["hidden_states"] = [rows[start:].clone() for rows in states]

    return edit


def test_rows_of_the_last_tokens_only_are_recognised_although_nothing_else_can_be_compared(tmp_path: Path) -> None:
    world = make_world()
    dump = change(write_dump(world, tmp_path / "dump", TRUTH), keep_rows(7))
    result = compare(dump, write_bank(world, tmp_path / "bank"))
    short = [item for item in result.findings if item.code == "rows-short"]
    held = [item.message.rsplit("hold ", 1)[1].split(",")[0] for item in short]
    assert held == ["state 3", "state 6", "state 9", "postnorm"]
    assert "last" in short[0].message
    assert result.trained_wiring is None


@pytest.mark.parametrize("files", [(0,), (2,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("start", [7, -7])
def test_short_files_are_explained_whichever_they_are_and_told_once_for_each_channel(
    tmp_path: Path, files: tuple[int, ...], start: int
) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    for number in files:
        sample = torch.load(dump / f"data_{number}.pt", weights_only=True)
        cut = slice(start, None) if start > 0 else slice(None, start)
        sample["hidden_states"] = [rows[cut].clone() for rows in sample["hidden_states"]]
        torch.save(sample, dump / f"data_{number}.pt")
    result = compare(dump, write_bank(world, tmp_path / "bank"))
    names = ", ".join(f"data_{number}.pt" for number in files)
    short = [item for item in result.findings if item.code == "rows-short"]
    assert [item.where for item in short] == [f"{names}, hidden_states[{slot}]" for slot in range(4)]
    rows = len(world.tokens[files[0]])
    place = "last" if start > 0 else "first"
    for item, state in zip(short, ("state 3", "state 6", "state 9", "postnorm"), strict=True):
        assert (
            f"its {rows - 7} rows are those of the {place} {rows - 7} of {rows} tokens, and hold {state}"
            in item.message
        )
    unreadable = [item.where for item in result.findings if item.code == "channel-unreadable"]
    assert unreadable == ([f"hidden_states[{slot}]" for slot in range(4)] if len(files) == 3 else [])


def test_short_files_of_other_tokens_stay_unreadable(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    sample = torch.load(dump / "data_1.pt", weights_only=True)
    sample["hidden_states"] = [torch.randn(len(rows) - 7, HIDDEN) for rows in sample["hidden_states"]]
    torch.save(sample, dump / "data_1.pt")
    result = compare(dump, write_bank(world, tmp_path / "bank"))
    assert "rows-short" not in codes(result)
    told = [(item.where, item.message) for item in result.findings if item.code == "channel-unreadable"]
    assert told == [(f"data_1.pt, hidden_states[{slot}]", "26 rows for 33 token ids") for slot in range(4)]


def test_a_padded_dump_is_aligned_and_says_so(tmp_path: Path) -> None:
    world = make_world()

    def pad(sample: dict[str, object]) -> None:
        states, tokens = sample["hidden_states"], sample["input_ids"]
        assert isinstance(states, list)
        assert isinstance(tokens, Tensor)
        sample["input_ids"] = torch.cat([torch.zeros(6, dtype=torch.int64), tokens])
        sample["hidden_states"] = [torch.cat([torch.randn(6, HIDDEN), rows]) for rows in states]
        sample["loss_mask"] = torch.ones(len(tokens) + 6, dtype=torch.int64)

    dump = change(write_dump(world, tmp_path / "dump", TRUTH), pad)
    result = compare(dump, write_bank(world, tmp_path / "bank"))
    assert result.alignments == {"padding": 3}
    assert result.trained_wiring == (3, 6, 9)
    assert "alignment-used" in codes(result)


def test_a_scale_that_hides_inside_a_match_is_named(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    banks = tuple({state: rows * 1.06 for state, rows in bank.items()} for bank in world.banks)
    result = compare(dump, write_bank(replace(world, banks=banks), tmp_path / "bank"))
    assert result.trained_wiring == (3, 6, 9)
    found = [item for item in result.findings if item.code == "scaled"]
    assert len(found) == 4
    assert "0.9434" in found[0].message


def test_two_fc_channels_of_one_state_are_named(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (3, 3, 9, POSTNORM))
    result = compare(dump, write_bank(world, tmp_path / "bank"))
    assert {"state-repeated", "channels-equal"} <= set(codes(result))


def test_the_missing_channel_is_named(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    result = compare(dump, write_bank(world, tmp_path / "live", served=(3, 6)))
    (count,) = (item for item in result.findings if item.code == "channel-count")
    assert "only the first 2" in count.message
    assert "[9]" in count.message


def test_a_repeat_that_is_no_capture_is_refused(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    with pytest.raises(HsfError) as refused:
        compare(dump, write_bank(world, tmp_path / "bank"), repeat=dump)
    assert refused.value.code == "capture-foreign"
