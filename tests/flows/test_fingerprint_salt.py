"""A salted fingerprint keeps its text from everybody who has the target's weights, but not the salt."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from hsforensics.errors import HsfError
from hsforensics.flows.compare import compare
from hsforensics.flows.fingerprint import fingerprint
from hsforensics.flows.fingerprint_file import is_fingerprint, read_fingerprint
from hsforensics.matching.fingerprint import FIRST, projection
from hsforensics.states import POSTNORM
from tests.world import HIDDEN, World, make_world, write_bank, write_dump

TRUTH = (0, 3, 6, POSTNORM)
SALT = "a long secret"


def by_nearest(rows: Tensor, candidates: Tensor) -> Tensor:
    return torch.cdist(rows.float(), candidates.float()).argmin(dim=1)


def found_in(values: Tensor, world: World) -> dict[str, Tensor]:
    """Tokens by each attack: the rows' first values, norms and unkeyed projections, against the whole vocabulary."""
    table, signs = world.embedding.float(), projection(HIDDEN, 0)
    return {
        "first": by_nearest(values[:, :FIRST], table[:, :FIRST]),
        "norm": by_nearest(values[:, :1], table.norm(dim=1, keepdim=True)),
        "projection": by_nearest(values, (table / table.norm(dim=1, keepdim=True)) @ signs),
    }


def readings(path: Path) -> list[Tensor]:
    """Everything in a file that might be rows: its tensors, and the bytes of each as 16 and 32 bit floats, [n, 64]."""
    rows = []
    for tensor in load_file(path).values():
        flat = tensor.contiguous().view(-1).view(torch.uint8)
        for dtype, size in ((torch.float16, 2), (torch.float32, 4)):
            for columns in (1, FIRST, 64):
                whole = len(flat) // (size * columns) * size * columns
                cut = flat[:whole].clone().view(dtype).view(-1, columns).float().nan_to_num(0.0, 0.0, 0.0)
                rows.append(torch.nn.functional.pad(cut, (0, 64 - columns)))
    return rows


def longest_run(found: Tensor, truth: Tensor) -> int:
    """Most consecutive tokens of the truth that an attack gives in order."""
    best, reach = 0, torch.zeros(len(truth) + 1, dtype=torch.long)
    for token in found.tolist():
        reach[1:] = torch.where(truth == token, reach[:-1] + 1, 0)
        best = max(best, int(reach.max()))
    return best


def ids_in(path: Path, truth: Tensor) -> bool:
    """Whether the bytes of token ids stand in a file."""
    return truth[:6].long().numpy().tobytes() in path.read_bytes()


@pytest.mark.parametrize("kind", ["dump", "capture"])
@pytest.mark.parametrize("salt", [None, SALT])
def test_a_dictionary_of_the_vocabulary_finds_tokens_only_where_there_is_no_salt(
    tmp_path: Path, kind: str, salt: str | None
) -> None:
    world = make_world()
    source = write_dump(world, tmp_path / "s", TRUTH) if kind == "dump" else write_bank(world, tmp_path / "s", (0, 3))
    fingerprint(source, tmp_path / "a.fp", salt=salt)
    truth = world.tokens[0]
    runs: dict[str, int] = {}
    for rows in readings(tmp_path / "a.fp"):
        for attack, found in found_in(rows, world).items():
            runs[attack] = max(runs.get(attack, 0), longest_run(found, truth))
    if salt is None:  # the attacks work: each gives the whole text
        assert (runs["first"], runs["norm"], runs["projection"]) == (len(truth),) * 3
        assert ids_in(tmp_path / "a.fp", truth)
    else:  # chance: among 1e5 guesses at 1 of 97 tokens, 4 in a row are to be expected
        assert max(runs.values()) < 8
        assert not ids_in(tmp_path / "a.fp", truth)


def test_ten_known_tokens_would_undo_a_keyed_projection() -> None:
    """Why signs under a secret would not do: a template whose states are known gives them away, and then all tokens."""
    world = make_world()
    generator = torch.Generator().manual_seed(1)
    secret = (torch.randint(0, 2, (HIDDEN, 64), generator=generator) * 2 - 1) / 8
    known = torch.cat([world.banks[0][state][:10] for state in range(12)])
    solved = torch.linalg.lstsq(known, known @ secret).solution
    hidden = world.banks[1][0] @ secret
    assert torch.equal(by_nearest(hidden, world.embedding @ solved), world.tokens[1])


def test_nothing_but_the_size_shows_without_the_salt(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    for name in ("a", "b"):
        fingerprint(dump, tmp_path / f"{name}.fp", salt=SALT)
    one, other = (load_file(tmp_path / f"{name}.fp") for name in ("a", "b"))
    assert list(one) == ["sealed"]
    assert b"data_0" not in (tmp_path / "a.fp").read_bytes()
    assert float((one["sealed"] == other["sealed"]).float().mean()) < 0.02  # the same text, and no byte in common
    counts = torch.bincount(one["sealed"].long(), minlength=256).float()
    assert float((counts / counts.mean() - 1).abs().max()) < 0.5  # no byte stands out


@pytest.mark.parametrize("sides", ["dump", "capture", "both"])
def test_with_the_salt_it_compares_like_the_tensors(tmp_path: Path, sides: str) -> None:
    world = make_world(lengths=(150, 40, 220))
    dump, live = write_dump(world, tmp_path / "dump", TRUTH), write_bank(world, tmp_path / "live", served=(0, 3, 6))
    if sides != "capture":
        made = fingerprint(dump, tmp_path / "d.fp", salt=SALT)
        assert made.salted
        assert is_fingerprint(tmp_path / "d.fp")
        dump = tmp_path / "d.fp"
    if sides != "dump":
        fingerprint(live, tmp_path / "l.fp", salt=SALT)
        live = tmp_path / "l.fp"
    result = compare(dump, live, salt=SALT)
    assert (result.verdict, result.trained_wiring, result.served_wiring) == ("aligned", (0, 3, 6), (0, 3, 6))


@pytest.mark.parametrize("sides", ["dump", "capture"])
@pytest.mark.parametrize(("given", "words"), [(None, "made under a salt"), ("other", "another salt")])
def test_a_missing_or_another_salt_is_told_as_such(tmp_path: Path, sides: str, given: str | None, words: str) -> None:
    world = make_world()
    dump, bank = write_dump(world, tmp_path / "dump", TRUTH), write_bank(world, tmp_path / "bank")
    fingerprint(dump if sides == "dump" else bank, tmp_path / "a.fp", salt=SALT)
    both = (tmp_path / "a.fp", bank) if sides == "dump" else (dump, tmp_path / "a.fp")
    with pytest.raises(HsfError, match=words) as refused:
        compare(*both, salt=given)
    assert refused.value.exit_code == 2
    assert "--salt" in refused.value.remedy
    assert str(refused.value.where).endswith("a.fp")


def test_two_sides_under_different_salts_are_told_as_such(tmp_path: Path) -> None:
    world = make_world()
    fingerprint(write_dump(world, tmp_path / "dump", TRUTH), tmp_path / "a.fp", salt="one")
    fingerprint(write_bank(world, tmp_path / "bank"), tmp_path / "b.fp", salt="two")
    for salt, name in (("one", "b.fp"), ("two", "a.fp")):
        with pytest.raises(HsfError, match="another salt") as refused:
            compare(tmp_path / "a.fp", tmp_path / "b.fp", salt=salt)
        assert str(refused.value.where).endswith(name)
        assert "same" in refused.value.remedy


def test_one_side_may_be_sealed_and_the_other_not(tmp_path: Path) -> None:
    world = make_world()
    fingerprint(write_dump(world, tmp_path / "dump", TRUTH), tmp_path / "a.fp", salt=SALT)
    fingerprint(write_bank(world, tmp_path / "bank"), tmp_path / "b.fp")
    assert compare(tmp_path / "a.fp", tmp_path / "b.fp", salt=SALT).trained_wiring == (0, 3, 6)


@pytest.mark.parametrize("place", [70, -1])
def test_an_altered_byte_is_refused_before_anything_is_read(tmp_path: Path, place: int) -> None:
    world = make_world()
    fingerprint(write_dump(world, tmp_path / "dump", TRUTH), tmp_path / "a.fp", salt=SALT)
    sealed = load_file(tmp_path / "a.fp")["sealed"]
    sealed[place] ^= 1
    save_file({"sealed": sealed}, tmp_path / "b.fp", metadata={"hsforensics": "{}"})
    with pytest.raises(HsfError, match="altered") as refused:
        compare(tmp_path / "b.fp", write_bank(world, tmp_path / "bank"), salt=SALT)
    assert refused.value.code == "capture-foreign"


@pytest.mark.parametrize("length", [0, 10, 64])
def test_a_seal_that_is_too_short_is_refused(tmp_path: Path, length: int) -> None:
    save_file({"sealed": torch.zeros(length, dtype=torch.uint8)}, tmp_path / "a.fp", metadata={"hsforensics": "{}"})
    with pytest.raises(HsfError) as refused:
        compare(tmp_path / "a.fp", write_bank(make_world(), tmp_path / "bank"), salt=SALT)
    assert refused.value.exit_code in (2, 3)


def test_an_empty_salt_is_refused(tmp_path: Path) -> None:
    dump = write_dump(make_world(), tmp_path / "dump", TRUTH)
    with pytest.raises(HsfError, match="empty") as refused:
        fingerprint(dump, tmp_path / "a.fp", salt="")
    assert refused.value.exit_code == 2
    assert not (tmp_path / "a.fp").exists()


@pytest.mark.parametrize("salted", [False, True])
def test_earlier_files_are_read_unless_their_salt_hid_nothing(tmp_path: Path, salted: bool) -> None:
    """Files of before there was a seal say whether tokens were hashed; hashed ones are refused with a reason."""
    world = make_world()
    bank = write_bank(world, tmp_path / "bank")
    fingerprint(write_dump(world, tmp_path / "dump", TRUTH), tmp_path / "a.fp")
    described, _ = read_fingerprint(tmp_path / "a.fp")
    text = json.dumps({**asdict(described), "salted": salted})
    save_file(load_file(tmp_path / "a.fp"), tmp_path / "old.fp", metadata={"hsforensics": text})
    if not salted:
        assert compare(tmp_path / "old.fp", bank).trained_wiring == (0, 3, 6)
        return
    with pytest.raises(HsfError, match="--salt") as refused:
        compare(tmp_path / "old.fp", bank, salt=SALT)
    assert refused.value.code == "capture-foreign"
    assert "hides no token" in refused.value.message
