"""For every class, version and list of ids, compare infers from values what the engine really serves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsforensics.errors import HsfError
from hsforensics.flows.compare import compare
from tests.sglang.cases import SERVERS, SWEEPS, Expected, ServerCase
from tests.sglang.models import TRAINED
from tests.sglang.rig import Outcome, Workshop, capture_server, sweep

FAULTS: dict[Expected, set[str]] = {
    "off-bank": {"served-off-bank"},
    "shares": {"served-off-bank", "ranks-disagree"},
}
"""What is expected -> what the capture itself must report."""

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(600)]


def check(outcome: Outcome, expected: Expected) -> None:
    compared = outcome.compared
    assert compared.trained_wiring == TRAINED
    if expected == "off-bank":
        assert outcome.truth == (None, None, None)
        assert compared.verdict != "aligned"
        assert compared.served_wiring is None or set(compared.served_wiring) == {None}
        assert "residual-missing" in {found.code for found in compared.findings}
        return
    if expected == "shares":
        check_shares(outcome)
        return
    assert outcome.truth == expected
    assert compared.served_wiring == expected
    assert compared.verdict == ("aligned" if expected == TRAINED else "misaligned")


def check_shares(outcome: Outcome) -> None:
    """No rank serves a state, and what all of them hold together is the trained one: the ids are right."""
    sums = [found for found in outcome.compared.findings if found.code == "partial-sum"]
    assert outcome.truth == (None,) * len(TRAINED)
    assert outcome.compared.verdict != "aligned"
    assert [found.where for found in sums] == [f"served.{slot}" for slot in range(len(TRAINED))]
    for found, state in zip(sums, TRAINED, strict=True):
        assert f"the 2 ranks together hold state {state}" in found.message


def check_first_rank(shop: Workshop, architecture: str, path: Path) -> None:
    """What ``capture`` records without ``--every-rank`` names the shares, too, and never passes."""
    manifest = path / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"ranks": 1}))
    alone = compare(shop.dump(shop.target(architecture)), path, device="cpu")
    assert alone.verdict != "aligned"
    assert [found.where for found in alone.findings if found.code == "partial-sum"] == [
        f"served.{slot}" for slot in range(len(TRAINED))
    ]


@pytest.mark.parametrize(("architecture", "version"), SWEEPS, ids=lambda part: part)
def test_the_served_states_are_inferred_for_every_list_of_ids(shop: Workshop, architecture: str, version: str) -> None:
    table = SWEEPS[architecture, version]
    outcomes = sweep(shop, architecture, version, list(table))
    for expected, outcome in zip(table.values(), outcomes, strict=True):
        if isinstance(outcome, str):
            assert (expected, outcome.split(":")[0]) == ("dies", "TypeError"), outcome
        else:
            check(outcome, expected)


@pytest.mark.parametrize("case", [case for case in SERVERS if case.expected != "dies"], ids=lambda case: case.name)
def test_a_live_capture_shows_what_a_whole_engine_serves(shop: Workshop, case: ServerCase) -> None:
    outcome = capture_server(shop, case.architecture, case.version, case.ids, **dict(case.options))
    codes = {found.code for found in outcome.captured.findings}
    assert outcome.captured.provenance.engine_version == case.version
    if case.expected == ():
        assert (outcome.truth, outcome.compared.tier, outcome.compared.verdict) == ((), "bank", "undecided")
        assert outcome.compared.trained_wiring == TRAINED
        return
    check(outcome, case.expected)
    if case.expected == "shares":
        check_first_rank(shop, case.architecture, Path(outcome.captured.path))
    assert codes - {"accept-measured"} == FAULTS.get(case.expected, set())
    assert ("accept-measured" in codes) == (dict(case.options).get("new_tokens", 1) > 1)


@pytest.mark.parametrize("case", [case for case in SERVERS if case.expected == "dies"], ids=lambda case: case.name)
def test_a_dying_engine_is_an_error_with_its_last_lines(shop: Workshop, case: ServerCase) -> None:
    with pytest.raises(HsfError) as caught:
        capture_server(shop, case.architecture, case.version, case.ids, **dict(case.options))
    assert caught.value.code == "engine-failed"
    assert "TypeError" in caught.value.remedy
