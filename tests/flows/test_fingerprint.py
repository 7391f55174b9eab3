"""Fingerprints: small, portable, and as good as the tensors in a comparison."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from hsforensics.errors import HsfError
from hsforensics.flows.compare import compare
from hsforensics.flows.fingerprint import fingerprint
from hsforensics.flows.fingerprint_file import is_fingerprint, read_fingerprint
from hsforensics.results import CompareResult
from hsforensics.states import POSTNORM, State
from tests.world import World, make_world, write_bank, write_dump

TRUTH: tuple[State, ...] = (3, 6, 9, POSTNORM)


def long_world() -> World:
    return make_world(lengths=(150, 40, 220))


def codes(result: CompareResult) -> list[str]:
    return [item.code for item in result.findings]


@pytest.mark.parametrize("sketched", ["dump", "capture", "both"])
@pytest.mark.parametrize(
    ("served", "verdict", "offsets"),
    [((3, 6, 9), "aligned", (0, 0, 0)), ((4, 7, 10), "misaligned", (1, 1, 1)), ((6, 3, 9), "misaligned", (3, -3, 0))],
)
def test_a_fingerprint_on_either_side_gives_the_verdict_of_the_tensors(
    tmp_path: Path, sketched: str, served: tuple[int, ...], verdict: str, offsets: tuple[int, ...]
) -> None:
    world = long_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH, noise=0.01)
    live = write_bank(world, tmp_path / "live", served=served)
    if sketched != "capture":
        fingerprint(dump, tmp_path / "dump.fp")
        dump = tmp_path / "dump.fp"
    if sketched != "dump":
        fingerprint(live, tmp_path / "live.fp")
        live = tmp_path / "live.fp"
    result = compare(dump, live)
    assert (result.verdict, result.trained_wiring, result.served_wiring) == (verdict, (3, 6, 9), served)
    assert result.offsets == offsets
    assert result.provenance.hidden_size == 48
    assert {item.identity for item in result.channels} == {"match"}  # a fingerprint cannot prove equal bits


@pytest.mark.parametrize("sketched", ["dump", "capture", "both"])
def test_first_values_are_those_of_the_tensors(tmp_path: Path, sketched: str) -> None:
    world = long_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH, (-1, 2, 5, 8))
    live = write_bank(world, tmp_path / "live", served=(4, 7, 10))
    fingerprint(dump, tmp_path / "dump.fp")
    fingerprint(live, tmp_path / "live.fp")
    sides = (
        dump if sketched == "capture" else tmp_path / "dump.fp",
        live if sketched == "dump" else tmp_path / "live.fp",
    )
    bank = world.banks[0]
    for item in compare(*sides, claims=(0, 3, 6, 9)).channels:
        assert item.row is not None
        assert item.state is not None
        assert item.values == item.reference == tuple(bank[item.state][item.row, :4].tolist())
        if item.side == "dump":
            assert item.claim is not None
            assert item.claimed_reference == tuple(bank[item.claim][item.row, :4].tolist())


def test_it_is_a_few_kilobytes_for_a_channel_and_a_sample(tmp_path: Path) -> None:
    dump = write_dump(long_world(), tmp_path / "dump", TRUTH)
    result = fingerprint(dump, tmp_path / "dump.fp")
    assert (result.samples, result.channels, result.source, result.salted) == (3, 4, "dump", False)
    assert result.rows == 66 + 40 + 66
    assert result.bytes / 12 < 10_500
    assert (tmp_path / "dump.fp").stat().st_mode & 0o777 == 0o600
    assert is_fingerprint(tmp_path / "dump.fp")
    assert not is_fingerprint(next(dump.glob("*.pt")))


def cut(world: World, first: int = 0, extra: int | None = None) -> World:
    """A world whose sequences start later, or have one more token in front (with rows that belong to nothing)."""
    tokens, banks = [], []
    for ids, bank in zip(world.tokens, world.banks, strict=True):
        head = ids[:0] if extra is None else torch.tensor([extra])
        tokens.append(torch.cat([head, ids[first:]]))
        banks.append({state: torch.cat([rows[: len(head)] * 0.5, rows[first:]]) for state, rows in bank.items()})
    return World(world.embedding, world.gain, tuple(tokens), tuple(banks))


@pytest.mark.parametrize(("first", "extra"), [(60, None), (0, 96)])
@pytest.mark.parametrize("sketched", [False, True])
def test_a_tail_and_a_leading_token_are_aligned_by_tokens(
    tmp_path: Path, first: int, extra: int | None, sketched: bool
) -> None:
    world = make_world(lengths=(150, 220, 180))
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    bank = write_bank(cut(world, first, extra), tmp_path / "bank")
    if sketched:
        fingerprint(dump, tmp_path / "dump.fp")
        fingerprint(bank, tmp_path / "bank.fp")
        dump, bank = tmp_path / "dump.fp", tmp_path / "bank.fp"
    result = compare(dump, bank)
    assert result.trained_wiring == (3, 6, 9)
    if sketched:  # both sides may well have chosen the very same windows
        assert set(result.alignments) <= {"windows", "same"}
    else:
        assert result.alignments == {"tail" if first else "leading-token": 3}
        assert "alignment-used" in codes(result)
    assert sum(result.alignments.values()) == 3


@pytest.mark.parametrize("lag", [1, -1, 3, -2])
def test_a_lag_is_seen_in_fingerprints_of_both_sides(tmp_path: Path, lag: int) -> None:
    world = long_world()
    late = [{state: rows.roll(lag, dims=0) for state, rows in bank.items()} for bank in world.banks]
    dump = write_dump(World(world.embedding, world.gain, world.tokens, tuple(late)), tmp_path / "dump", TRUTH)
    fingerprint(dump, tmp_path / "dump.fp")
    fingerprint(write_bank(world, tmp_path / "bank"), tmp_path / "bank.fp")
    result = compare(tmp_path / "dump.fp", tmp_path / "bank.fp")
    found = [item for item in result.findings if item.code == "rows-lagged"]
    assert len(found) == 4
    assert ("late" if lag > 0 else "early") in found[0].message


def test_fingerprints_of_other_seeds_are_refused(tmp_path: Path) -> None:
    world = long_world()
    fingerprint(write_dump(world, tmp_path / "dump", TRUTH), tmp_path / "a.fp", seed=1)
    fingerprint(write_bank(world, tmp_path / "bank"), tmp_path / "b.fp", seed=2)
    with pytest.raises(HsfError, match="--seed") as refused:
        compare(tmp_path / "a.fp", tmp_path / "b.fp")
    assert refused.value.exit_code == 2


def test_sides_that_are_swapped_are_refused(tmp_path: Path) -> None:
    world = long_world()
    dump, bank = write_dump(world, tmp_path / "dump", TRUTH), write_bank(world, tmp_path / "bank")
    fingerprint(bank, tmp_path / "bank.fp")
    fingerprint(dump, tmp_path / "dump.fp")
    swapped = ((tmp_path / "bank.fp", bank, "DUMPS takes"), (dump, tmp_path / "dump.fp", "CAPTURE takes"))
    for first, second, words in swapped:
        with pytest.raises(HsfError, match=words) as refused:
            compare(first, second)
        assert refused.value.code == "usage"


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    dump = write_dump(long_world(), tmp_path / "dump", TRUTH)
    fingerprint(dump, tmp_path / "a.fp")
    with pytest.raises(HsfError) as refused:
        fingerprint(dump, tmp_path / "a.fp")
    assert refused.value.code == "write-refused"


def test_a_torn_fingerprint_is_refused(tmp_path: Path) -> None:
    world = long_world()
    bank = write_bank(world, tmp_path / "bank")
    fingerprint(bank, tmp_path / "b.fp")
    whole = (tmp_path / "b.fp").read_bytes()
    (tmp_path / "b.fp").write_bytes(whole[:-100])
    with pytest.raises(HsfError) as refused:
        compare(write_dump(world, tmp_path / "dump", TRUTH), tmp_path / "b.fp")
    assert refused.value.code == "capture-foreign"


def test_a_nan_row_stays_a_nan_row(tmp_path: Path) -> None:
    world = make_world()
    world.banks[0][6][5, 2] = float("nan")
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    world.banks[0][6][5, 2] = 0.0
    fingerprint(dump, tmp_path / "dump.fp")
    result = compare(tmp_path / "dump.fp", write_bank(world, tmp_path / "bank"))
    assert any(item.code == "channel-unreadable" and "row 5" in item.message for item in result.findings)
    assert result.trained_wiring == (3, 6, 9)


PHRASE = 12


def boilerplate(length: int = 230) -> World:
    """Texts in which one phrase returns every 60 tokens."""
    world = make_world(lengths=(length, length - 20, length - 35))
    for ids in world.tokens:
        for place in range(0, len(ids) - PHRASE, 60):
            ids[place : place + PHRASE] = torch.arange(PHRASE)
    return world


def cut_off(world: World, rows: int) -> World:
    """The same sequences, ended early."""
    banks = tuple({state: values[:rows] for state, values in bank.items()} for bank in world.banks)
    return World(world.embedding, world.gain, tuple(ids[:rows] for ids in world.tokens), banks)


@pytest.mark.parametrize("salt", [None, "x"])
@pytest.mark.parametrize("rows", [60, 130, 200])
def test_a_phrase_that_returns_pairs_no_wrong_rows(tmp_path: Path, rows: int, salt: str | None) -> None:
    world = boilerplate()
    fingerprint(write_dump(world, tmp_path / "dump", TRUTH), tmp_path / "dump.fp", salt=salt)
    live = write_bank(cut_off(world, rows), tmp_path / "live", served=(3, 6, 9))
    result = compare(tmp_path / "dump.fp", live, salt=salt)
    assert [item.code for item in result.findings if item.severity == "error"] == []
    assert (result.verdict, result.trained_wiring) == ("aligned", (3, 6, 9)) or rows == 60  # few chosen rows so early
    assert set(result.alignments) <= {"windows", "same"}


@pytest.mark.parametrize("salt", [None, "x"])
def test_the_healthy_fixture_is_aligned_with_and_without_a_salt(tmp_path: Path, salt: str | None) -> None:
    incident = Path(__file__).resolve().parents[2] / "fixtures" / "incident"
    fingerprint(incident / "dumps", tmp_path / "dump.fp", salt=salt, max_samples=8)
    result = compare(tmp_path / "dump.fp", incident / "captures" / "situation-a", salt=salt)
    assert (result.verdict, [item.code for item in result.findings if item.severity == "error"]) == ("aligned", [])


@pytest.mark.parametrize("broken", ["places", "lengths"])
def test_places_that_cannot_be_are_refused(tmp_path: Path, broken: str) -> None:
    import json

    from safetensors.torch import load_file, save_file

    world = long_world()
    bank = write_bank(world, tmp_path / "bank")
    fingerprint(write_dump(world, tmp_path / "dump", TRUTH), tmp_path / "a.fp")
    described, _ = read_fingerprint(tmp_path / "a.fp")
    tensors = load_file(tmp_path / "a.fp")
    lengths = described.lengths
    if broken == "places":
        tensors["0.places"] = tensors["0.places"].flip(0)
    else:
        lengths = lengths[:-1]
    text = json.dumps({**asdict(described), "lengths": lengths})
    save_file(tensors, tmp_path / "b.fp", metadata={"hsforensics": text})
    with pytest.raises(HsfError) as refused:
        compare(tmp_path / "b.fp", bank)
    assert refused.value.code == "capture-foreign"


def test_captures_of_ranks_beside_a_fingerprint_are_refused(tmp_path: Path) -> None:
    world = long_world()
    bank = write_bank(world, tmp_path / "bank")
    fingerprint(write_dump(world, tmp_path / "dump", TRUTH), tmp_path / "dump.fp")
    with pytest.raises(HsfError, match="--rank") as refused:
        compare(tmp_path / "dump.fp", bank, ranks=(bank,))
    assert refused.value.exit_code == 2


def test_a_channel_of_a_long_sample_takes_what_the_docs_say(tmp_path: Path) -> None:
    dump = write_dump(long_world(), tmp_path / "dump", TRUTH)
    made = fingerprint(dump, tmp_path / "dump.fp")
    assert 5e3 < made.bytes / (made.samples * made.channels) < 12e3  # "some 10 kB"; short samples take less


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("sketched", ["dump", "capture", "both", "neither"])
def test_the_dtype_that_is_told_is_that_of_the_dumps(tmp_path: Path, dtype: torch.dtype, sketched: str) -> None:
    world = make_world(dtype=dtype)
    dump, bank = write_dump(world, tmp_path / "dump", TRUTH), write_bank(world, tmp_path / "bank")
    for path in (dump, bank):
        fingerprint(path, path.with_suffix(".fp"))
    ours = dump.with_suffix(".fp") if sketched in ("dump", "both") else dump
    theirs = bank.with_suffix(".fp") if sketched in ("capture", "both") else bank
    (source,) = compare(ours, theirs).provenance.dumps
    assert source.dtype == str(dtype).removeprefix("torch.")
