"""JSON at the edge: round trips, the published schema, and refusals."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from hsforensics.errors import HsfError
from hsforensics.report.schema import RESULT_TYPES, json_schema, load_compare_report, to_json
from hsforensics.results import CompareResult, Provenance
from hsforensics.states import POSTNORM, State, Wiring
from tests.incident import report

DOCS = Path(__file__).parents[2] / "docs" / "schema"
STATES: st.SearchStrategy[State | None] = st.one_of(st.none(), st.integers(0, 200), st.just(POSTNORM), st.just("mid:3"))


@settings(deadline=None, max_examples=40)
@given(st.lists(STATES, min_size=1, max_size=5), st.lists(STATES, min_size=1, max_size=5), st.text(max_size=20))
def test_a_report_survives_the_round_trip_exactly(
    trained: list[State | None], served: list[State | None], text: str
) -> None:
    before = replace(
        report(tuple(trained), tuple(served)), provenance=Provenance(hsforensics=text, command=(text,), created="")
    )
    after: CompareResult = TypeAdapter(CompareResult).validate_json(to_json(before))
    assert after == before


def test_reading_a_written_report_gives_the_same_result(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text(to_json(report()))
    assert load_compare_report(file) == report()


@pytest.mark.parametrize("kind", RESULT_TYPES)
def test_the_published_schema_names_every_field(kind: str) -> None:
    published = json.loads((DOCS / f"{kind}-1.json").read_text())
    assert published == json_schema(kind)
    assert set(published["properties"]) == {item.name for item in fields(RESULT_TYPES[kind])}


def test_a_report_validates_against_the_published_schema() -> None:
    wirings: tuple[Wiring | None, ...] = ((3, 31, 59), (3, None, POSTNORM), None)
    for wiring in wirings:
        jsonschema.validate(json.loads(to_json(report(wiring))), json_schema("compare"))


def test_nan_and_infinity_become_null() -> None:
    base = report()
    spoiled = replace(base, channels=(replace(base.channels[0], distance=float("nan"), norm=float("inf")),))
    found = json.loads(to_json(spoiled), parse_constant=pytest.fail)
    assert (found["channels"][0]["distance"], found["channels"][0]["norm"]) == (None, None)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (None, "not-found", "no such report"),
        ("", "report-foreign", "no JSON"),
        ("[1]", "report-foreign", "list"),
        ('{"kind": "draft-eval"}', "report-foreign", "draft-eval"),
        ("[" * 100_000, "report-foreign", "no JSON"),
        ('{"kind": "compare"}', "report-foreign", "schema_version must be 1, got None"),
        ('{"kind": "compare", "schema_version": 1}', "report-foreign", "required"),
        ('{"kind": "compare", "schema_version": 2}', "report-foreign", "must be 1, got 2"),
    ],
)
def test_a_foreign_report_is_refused_with_the_reason(tmp_path: Path, text: str | None, code: str, words: str) -> None:
    file = tmp_path / "report.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(HsfError, match=words) as refused:
        load_compare_report(file)
    assert refused.value.code == code


@pytest.mark.parametrize(("key", "junk"), [("tokens", "30"), ("trained_wiring", [True, 31, 59]), ("tokens", 1.5)])
def test_values_of_another_type_are_refused_not_converted(tmp_path: Path, key: str, junk: object) -> None:
    file = tmp_path / "report.json"
    file.write_text(json.dumps({**json.loads(to_json(report())), key: junk}))
    with pytest.raises(HsfError, match=key):
        load_compare_report(file)


@pytest.mark.parametrize(
    ("name", "text", "held"),
    [
        ("config.json", '{"architectures": ["A"]}', "the config of a model"),
        ("a.json", '{"kind": "rules"}', "a report of kind 'rules'"),
        ("a.json", '{"alpha": 1, "beta": 2}', "a JSON object with the keys alpha, beta"),
        ("a.json", '{"kind": ["odd"]}', "a JSON object with the keys kind"),
        ("a.json", "{}", "an empty JSON object"),
        ("a.json", "[]", "a JSON list"),
        ("a.json", "null", "a JSON null"),
    ],
)
def test_what_is_no_compare_report_is_named_for_what_it_is(tmp_path: Path, name: str, text: str, held: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(HsfError) as caught:
        load_compare_report(tmp_path / name)
    assert caught.value.code == "report-foreign"
    assert caught.value.message == f"expected a report of hsforensics compare, found {held}"
