"""Explanations, groups and alignments on the terminal, and fingerprints."""

import io
from pathlib import Path

from rich.console import Console

from hsforensics.flows.compare import compare
from hsforensics.flows.fingerprint import fingerprint
from hsforensics.report.compare import compare_csv, print_compare
from hsforensics.report.fingerprint import print_fingerprint
from hsforensics.report.schema import to_json
from hsforensics.results import CompareResult
from hsforensics.states import POSTNORM
from tests.world import World, make_world, write_bank, write_dump
from tools.accuracy import synthetic
from tools.injections import FAULTS, inject


def shown(result: CompareResult) -> str:
    text = io.StringIO()
    print_compare(result, Console(file=text, width=120))
    return text.getvalue()


def faulty(name: str) -> CompareResult:
    fault = next(item for item in FAULTS if item.name == name)
    return inject(synthetic(layers=8, width=64), "bf16", (fault,)).result


def test_an_explanation_is_shown_with_its_share() -> None:
    text = shown(faulty("rows one late"))
    assert "explained" in text
    assert "1 row late" in text
    assert "% of the misfit explained" in text


def test_groups_of_a_mixed_set_are_shown() -> None:
    text = shown(faulty("one file made by another rule"))
    assert text.count("group  ") == 2
    assert "data_2" in text


def test_the_alignment_is_shown_when_it_is_not_plain(tmp_path: Path) -> None:
    world = make_world()
    tails = World(
        world.embedding,
        world.gain,
        tuple(ids[9:] for ids in world.tokens),
        tuple({state: rows[9:] for state, rows in bank.items()} for bank in world.banks),
    )
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, POSTNORM))
    assert "rows aligned by   tail (3 samples)" in shown(compare(dump, write_bank(tails, tmp_path / "bank")))


def test_csv_and_json_carry_the_explanation() -> None:
    result = faulty("state rotated")
    assert "orthogonal" in compare_csv(result)
    assert '"explained": ' in to_json(result)


def test_a_fingerprint_says_how_small_it_is(tmp_path: Path) -> None:
    dump = write_dump(make_world(), tmp_path / "dump", (3, 6, 9, POSTNORM))
    text = io.StringIO()
    print_fingerprint(fingerprint(dump, tmp_path / "a.fp", salt="pepper"), Console(file=text, width=120))
    assert "3 samples, 4 channels" in text.getvalue()
    assert "sealed under the salt" in text.getvalue()
    assert "kB for a channel" in text.getvalue()
