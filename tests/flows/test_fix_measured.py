"""fix-config and measurements: only a capture served with this very config proves or denies what it serves."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from hsforensics.drafter.config import read_drafter_config
from hsforensics.flows.fix_config import fix_config
from hsforensics.flows.undo_config import undo_config
from hsforensics.report.console import console
from hsforensics.report.fix_config import print_fix_config
from hsforensics.results import CompareResult, FixConfigResult
from tests.incident import TRAINED, report, write_config

_RIGHT, _WRONG = [3, 31, 59], [-1, 2, 30]


def _fix(drafter: Path, found: CompareResult) -> FixConfigResult:
    return fix_config(drafter, engine="sglang==0.5.16", report=found)


def _configure(drafter: Path, ids: list[int]) -> Path:
    return write_config(drafter, eagle_config={"eagle_aux_hidden_state_layer_ids": ids})


def _codes(result: FixConfigResult) -> list[str]:
    return [item.code for item in result.findings]


def _measured(config: Path, served: tuple[int, ...], served_with: str | None = "this") -> CompareResult:
    """A report of a live capture of the new engine, served with this config, or with one of another hash."""
    given = read_drafter_config(config).sha256
    told = given if served_with == "this" else served_with
    origin: dict[str, Any] = {"drafter_config_sha256": given, "served_config_sha256": told}
    return report(served=served, engine="sglang", engine_version="0.5.16", **origin)


def test_a_config_that_was_measured_right_is_kept_whatever_the_rule_says(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    plan = _fix(tmp_path, _measured(config, TRAINED))
    assert (plan.edits, plan.pending) == ((), False)
    found = [(item.code, item.severity) for item in plan.findings if item.code != "rule-caveat"]
    assert found == [("rule-disagrees", "warning"), ("wiring-right", "info")]


def test_a_config_that_is_right_by_the_rule_but_was_measured_wrong_is_an_error(tmp_path: Path) -> None:
    config = _configure(tmp_path, _RIGHT)
    plan = _fix(tmp_path, _measured(config, (2, 30, 58)))
    assert plan.edits == ()
    assert ("rule-disagrees", "error") in [(i.code, i.severity) for i in plan.findings]


@pytest.mark.parametrize("served_with", ["1" * 64, None])
@pytest.mark.parametrize(("ids", "served"), [(_WRONG, TRAINED), (_RIGHT, (2, 30)), (_RIGHT, (2, 30, 58))])
def test_a_capture_of_another_config_proves_and_denies_nothing(
    tmp_path: Path, ids: list[int], served: tuple[int, ...], served_with: str | None
) -> None:
    config = _configure(tmp_path, ids)
    plan = _fix(tmp_path, _measured(config, served, served_with))
    assert plan.pending == (ids == _WRONG)
    assert plan.after.states == TRAINED
    other = next(item for item in plan.findings if item.code == "other-config")
    assert other.evidence.startswith(f"sha256 {'1' * 12 if served_with else 'unknown'} served")
    assert {"rule-disagrees", "wiring-right"}.isdisjoint(_codes(plan))
    assert ("predicted-not-measured" if plan.pending else "config-serves-trained") in _codes(plan)
    assert "measured to serve" not in str(plan.findings)


def test_a_capture_that_does_not_say_its_config_but_fits_the_rule_is_not_doubted(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    plan = _fix(tmp_path, _measured(config, (2, 30), None))
    assert (plan.pending, "other-config" in _codes(plan)) == (True, False)


@pytest.mark.parametrize(("served", "code"), [(TRAINED, "wiring-right"), ((2, 30, 58), "rule-disagrees")])
def test_an_edit_that_gives_back_the_very_bytes_that_were_captured_is_measured(
    tmp_path: Path, served: tuple[int, ...], code: str
) -> None:
    digest = read_drafter_config(_configure(tmp_path, _RIGHT)).sha256
    config = _configure(tmp_path, _WRONG)
    plan = _fix(tmp_path, _measured(config, served, digest))
    (found,) = (item for item in plan.findings if item.code in ("wiring-right", "rule-disagrees"))
    assert (plan.pending, found.code) == (True, code)
    assert found.severity == ("info" if served == TRAINED else "error")
    assert "predicted-not-measured" not in _codes(plan)


def test_a_measurement_that_agrees_with_the_rule_or_is_of_another_config_is_no_disagreement(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    found = _measured(config, (2, 30))
    assert "rule-disagrees" not in _codes(_fix(tmp_path, found))
    _configure(tmp_path, [5, 6, 7])
    assert "rule-disagrees" not in _codes(_fix(tmp_path, found))


@pytest.mark.parametrize(
    ("served", "served_with", "marks"),
    [
        ((2, 30), "this", ("serves [2, 30] (measured)", "serves [3, 31, 59] (predicted)")),
        ((2, 30, 58), "this", ("serves [2, 30] (predicted; measured: [2, 30, 58])", "serves [3, 31, 59] (predicted)")),
        ((2, 30), None, ("serves [2, 30] (predicted)", "serves [3, 31, 59] (predicted)")),
        ((2, 30), "1" * 64, ("serves [2, 30] (predicted)", "serves [3, 31, 59] (predicted)")),
        (TRAINED, "fixed", ("serves [2, 30] (predicted)", "serves [3, 31, 59] (measured)")),
    ],
)
def test_before_and_after_say_whether_they_were_measured(
    tmp_path: Path, served: tuple[int, ...], served_with: str | None, marks: tuple[str, str]
) -> None:
    if served_with == "fixed":
        config = _configure(tmp_path, _WRONG)
        fix_config(tmp_path, engine="sglang==0.5.16", report=_measured(config, (2, 30)), write=True)
        served_with = read_drafter_config(config).sha256
        undo_config(tmp_path)
    config = tmp_path / "config.json"
    if not config.exists():
        _configure(tmp_path, _WRONG)
    stream = io.StringIO()
    print_fix_config(_fix(tmp_path, _measured(config, served, served_with)), console(stream))
    lines = [line for line in stream.getvalue().splitlines() if line.startswith(("before", "after"))]
    assert [line.partition(": ")[2] for line in lines] == list(marks)
