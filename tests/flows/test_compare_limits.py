"""What forbids a green: incomplete or broken banks, too few tokens, requests nobody looked at, another target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hsforensics.capture.manifest import ManifestHeader, RequestTensors
from hsforensics.capture.store import open_capture, write_capture
from hsforensics.cli.compare import exit_code
from hsforensics.errors import HsfError
from hsforensics.flows.bank_check import missing_states, refuse_tiny
from hsforensics.flows.compare import compare
from hsforensics.flows.fingerprint import fingerprint
from hsforensics.results import CompareResult
from hsforensics.states import POSTNORM, State
from tests.world import HIDDEN, LAYERS, VOCAB, World, make_world, write_bank, write_dump, write_target

AUX = (3, 6, 9)
TRUTH = (*AUX, POSTNORM)


def codes(result: CompareResult) -> set[str]:
    return {item.code for item in result.findings}


def changed(path: Path, key: str, change: object) -> Path:
    """A dump whose files have one entry changed by a function."""
    for file in sorted(path.glob("*.pt")):
        sample = torch.load(file, weights_only=True)
        sample[key] = change(sample[key])  # type: ignore[operator]
        torch.save(sample, file)
    return path


@pytest.mark.parametrize("lost", [(3,), (2, 4), (0, 1, 2, 3, 5, 6, 7, 9)])
def test_an_incomplete_bank_proves_only_exact_states(tmp_path: Path, lost: Sequence[int]) -> None:
    """A dump of states that are missing must never be taken for the neighbours that are there."""
    world = make_world()
    kept: list[State] = [state for state in world.states if state not in lost]
    served = tuple(state if state in kept else state + 1 for state in AUX)
    live = write_bank(world, tmp_path / "live", served=served, states=kept)
    result = compare(write_dump(world, tmp_path / "dump", TRUTH, noise=0.02), live)
    assert result.verdict == "undecided"
    assert result.trained_wiring is None
    assert missing_states(open_capture(live).manifest) == tuple(lost)
    (note,) = (item for item in result.findings if item.code == "bank-incomplete")
    assert str(lost[0]) in note.message
    assert not {"partial-sum", "scaled", "offset-mixed"} & codes(result)
    assert ("counterparts-agree" in codes(result)) == (served == AUX)  # 2 % apart; neighbours are 30 % apart
    exact = compare(write_dump(world, tmp_path / "exact", TRUTH), live)
    assert exact.trained_wiring is not None or set(AUX) <= set(lost)
    for slot, state in enumerate(exact.trained_wiring or (None,) * 3):
        assert state == (AUX[slot] if AUX[slot] in kept else None)


@pytest.mark.parametrize("states", [(3,), ()])
def test_a_bank_of_fewer_than_two_states_is_refused(tmp_path: Path, states: tuple[int, ...]) -> None:
    bank = open_capture(write_bank(make_world(), tmp_path / "bank", served=AUX))
    with pytest.raises(HsfError, match="at least two states") as refused:
        refuse_tiny(replace(bank, manifest=replace(bank.manifest, states=states)))
    assert refused.value.code == "nothing-compared"


def spoiled(world: World, state: State, rows: slice, value: float) -> World:
    banks = tuple({name: values.clone() for name, values in bank.items()} for bank in world.banks)
    for bank in banks:
        bank[state][rows] = value
    return replace(world, banks=banks)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize(("rows", "tokens"), [(slice(None), 124), (slice(0, 2), 118)])
def test_a_broken_state_of_the_bank_is_the_captures_fault(
    tmp_path: Path, value: float, rows: slice, tokens: int
) -> None:
    world = make_world()
    live = write_bank(spoiled(world, LAYERS, rows, value), tmp_path / "live", served=AUX)
    result = compare(write_dump(world, tmp_path / "dump", TRUTH), live)
    assert (result.trained_wiring, result.tokens) == (AUX, tokens)
    (note,) = (item for item in result.findings if item.code == "bank-nonfinite")
    assert f"state {LAYERS}" in note.message
    assert "Produce the capture again" in note.remedy
    assert "channel-unreadable" not in codes(result)
    assert exit_code(result) == 1


def test_a_dump_of_exactly_the_served_channels_has_no_target(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", AUX)
    result = compare(dump, write_bank(world, tmp_path / "live", served=AUX))
    assert (result.verdict, result.trained_wiring) == ("aligned", AUX)
    assert {"roles-inferred", "target-absent"} <= codes(result)
    final = compare(write_dump(world, tmp_path / "final", TRUTH), write_bank(world, tmp_path / "four", (*AUX, 11)))
    assert "roles-inferred" not in codes(final)
    bank = compare(dump, write_bank(world, tmp_path / "bank"))
    assert (bank.trained_wiring, "roles-inferred" in codes(bank)) == (AUX, True)
    assert "channel-count" in codes(final)


def test_another_target_is_never_accepted_silently(tmp_path: Path) -> None:
    world = make_world()
    dump, live = write_dump(world, tmp_path / "dump", TRUTH), write_bank(world, tmp_path / "live", served=AUX)
    assert "target-differs" not in codes(compare(dump, live, target=write_target(world, tmp_path / "target")))
    other = compare(dump, live, target=write_target(make_world(seed=1), tmp_path / "other"))
    assert exit_code(other) == 1
    assert "target-differs" in codes(other)
    foreign = write_target(replace(world, architecture="Qwen3ForCausalLM"), tmp_path / "foreign")
    with pytest.raises(HsfError) as refused:
        compare(dump, live, target=foreign)
    assert refused.value.code == "target-foreign"


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_8_bit_floats_are_compared_like_any_others(tmp_path: Path, dtype: torch.dtype) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    changed(dump, "hidden_states", lambda states: [values.to(dtype) for values in states])
    result = compare(dump, write_bank(world, tmp_path / "live", served=AUX))
    assert (result.verdict, result.trained_wiring) == ("aligned", AUX)
    assert compare(dump, target=write_target(world, tmp_path / "target")).tokens == 124


@pytest.mark.parametrize("token", [VOCAB, 10**6, -1])
def test_tokens_outside_the_vocabulary_are_named_and_left_out(tmp_path: Path, token: int) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (0, *TRUTH))
    changed(dump, "input_ids", lambda ids: ids.index_fill(0, torch.tensor([5]), token))
    result = compare(dump, target=write_target(world, tmp_path / "target"))
    (note,) = (item for item in result.findings if item.code == "tokens-invalid")
    assert note.where == "data_0.pt, data_1.pt, data_2.pt"
    assert f"0..{VOCAB - 1}" in note.message
    assert f"first is {token} in row 5" in note.message
    assert note.evidence == "3 rows: data_0.pt 5; data_1.pt 5; data_2.pt 5"
    assert result.trained_wiring == (0, None, None, None)


def test_a_device_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    dump = write_dump(make_world(), tmp_path / "dump", TRUTH)
    with pytest.raises(HsfError) as refused:
        compare(dump, write_bank(make_world(), tmp_path / "bank"), device="nodevice")
    assert refused.value.code == "usage"


@pytest.mark.parametrize("shape", [(HIDDEN,), (HIDDEN, 0)])
def test_an_fc_of_no_sensible_shape_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    from safetensors.torch import save_file

    drafter = tmp_path / "drafter"
    drafter.mkdir()
    (drafter / "config.json").write_text("{}")
    save_file({"fc.weight": torch.zeros(shape)}, drafter / "model.safetensors")
    dump = write_dump(make_world(), tmp_path / "dump", TRUTH)
    with pytest.raises(HsfError) as refused:
        compare(dump, write_bank(make_world(), tmp_path / "bank"), drafter=drafter)
    assert refused.value.code == "drafter-unreadable"


def test_a_request_that_no_sample_used_is_still_checked(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    (dump / "data_2.pt").unlink()
    sound = compare(dump, write_bank(world, tmp_path / "live", served=AUX))
    assert (sound.verdict, "requests-unused" in codes(sound)) == ("aligned", True)
    wrong = compare(dump, _served_wrongly(world, tmp_path / "wrong"))
    assert wrong.verdict == "undecided"
    assert exit_code(wrong) == 1
    (note, *_) = (item for item in wrong.findings if item.code == "rows-disagree")
    assert "request-00002" in note.where


def _served_wrongly(world: World, path: Path) -> Path:
    """A live capture whose last request was served one layer deeper than the others."""
    live = open_capture(write_bank(world, path.with_name("right"), served=AUX))
    requests = [
        RequestTensors(
            token_ids=tokens,
            positions=torch.arange(len(tokens)),
            states=bank,
            served=tuple(bank[state + (number == 2)].clone() for state in AUX),
        )
        for number, (tokens, bank) in enumerate(zip(world.tokens, world.banks, strict=True))
    ]
    fields = {name: getattr(live.manifest, name) for name in ManifestHeader.__dataclass_fields__}
    write_capture(path, ManifestHeader(**fields), requests)
    return path


def test_samples_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    world = make_world()
    dump, bank = write_dump(world, tmp_path / "dump", TRUTH), write_bank(world, tmp_path / "bank")
    (note,) = (item for item in compare(dump, bank, max_samples=2).findings if item.code == "samples-left-out")
    assert "2 of 3" in note.message
    assert "samples-left-out" not in codes(compare(dump, bank, max_samples=3))


@pytest.mark.parametrize(
    ("lengths", "verdict", "few"),
    [((1,), "undecided", True), ((7,), "undecided", True), ((8,), "aligned", True), ((20, 20), "aligned", False)],
)
def test_a_few_tokens_are_not_enough(tmp_path: Path, lengths: tuple[int, ...], verdict: str, few: bool) -> None:
    world = make_world(lengths=lengths)
    result = compare(write_dump(world, tmp_path / "d", TRUTH), write_bank(world, tmp_path / "live", served=AUX))
    assert result.verdict == verdict
    assert ("few-sequences" in codes(result)) == few


@pytest.mark.parametrize(("shift", "words"), [(-1, "previous"), (1, "next")])
def test_an_embedding_of_shifted_ids_is_lagged_and_not_refuted(tmp_path: Path, shift: int, words: str) -> None:
    world = make_world()
    dump = changed(write_dump(world, tmp_path / "dump", (0, *AUX)), "input_ids", lambda ids: ids.roll(shift))
    result = compare(dump, target=write_target(world, tmp_path / "target"))
    (note,) = (item for item in result.findings if item.code == "rows-lagged")
    assert note.where == "hidden_states[0]"
    assert "token lag" in note.message
    assert result.channels[0].state != 0


def test_padding_rows_of_zeros_are_no_fault(tmp_path: Path) -> None:
    world = make_world()
    pad = VOCAB - 1
    tokens = tuple(torch.cat([ids[:-9] % pad, torch.full((9,), pad)]) for ids in world.tokens)
    banks = tuple({name: values.clone() for name, values in bank.items()} for bank in world.banks)
    for bank in banks:
        bank[0][-9:] = 0
    padded = replace(world, tokens=tokens, banks=banks)
    dump = write_dump(padded, tmp_path / "dump", (0, *AUX))
    result = compare(dump, write_bank(padded, tmp_path / "live", served=(0, 3, 6)))
    assert (result.verdict, "rows-constant" in codes(result)) == ("aligned", False)


def test_what_is_wrong_with_served_rows_is_the_captures_fault(tmp_path: Path) -> None:
    world = make_world()
    live = write_bank(spoiled(world, 9, slice(0, 2), float("nan")), tmp_path / "live", served=AUX)
    result = compare(write_dump(world, tmp_path / "dump", TRUTH), live)
    (note, *_) = (item for item in result.findings if item.code == "channel-unreadable")
    assert "served.2" in note.where
    assert "capture" in note.remedy


def test_a_fingerprint_of_a_capture_is_held_against_the_target_too(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    changed(dump, "hidden_states", lambda states: [values.to(torch.float8_e4m3fn) for values in states])
    print_file = tmp_path / "live.fp"
    fingerprint(write_bank(world, tmp_path / "live", served=AUX), print_file)
    own = compare(dump, print_file, target=write_target(world, tmp_path / "target"))
    assert (own.trained_wiring, "target-differs" in codes(own)) == (AUX, False)
    other = write_target(replace(world, extra={"rope_theta": 7.0}), tmp_path / "other")
    assert "target-differs" in codes(compare(dump, print_file, target=other))
    foreign = write_target(replace(world, architecture="Qwen3ForCausalLM"), tmp_path / "foreign")
    with pytest.raises(HsfError) as refused:
        compare(dump, print_file, target=foreign)
    assert refused.value.code == "target-foreign"
