"""``hsforensics findings`` on the command line."""

from __future__ import annotations

import json

import jsonschema
from typer.testing import CliRunner

from hsforensics.cli.main import app
from hsforensics.findings import CATALOGUE
from hsforensics.report.schema import json_schema


def _run(*words: str) -> str:
    result = CliRunner().invoke(app, ["findings", *words])
    assert result.exit_code == 0
    return result.stdout


def test_json_is_a_result_like_every_other() -> None:
    data = json.loads(_run("--json"))
    jsonschema.validate(data, json_schema("findings"))
    assert (data["kind"], data["schema_version"]) == ("findings", 1)
    assert [item["code"] for item in data["catalogue"]] == list(CATALOGUE)
    assert [item["code"] for item in json.loads(_run("ids-lost", "--json"))["catalogue"]] == ["ids-lost"]


def test_one_code_is_explained_with_what_to_type() -> None:
    text = _run("offset-mixed")
    kind = CATALOGUE["offset-mixed"]
    assert text.startswith("offset-mixed (error)\n")
    assert all(f"    $ {command}\n" in text for command in kind.commands)
    assert "ids-lost" not in text
