"""``hsforensics demo`` as a newcomer types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import typer
from typer.testing import CliRunner

from hsforensics.cli.demo import demo_command
from hsforensics.errors import HsfError
from hsforensics.report.schema import json_schema

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(demo_command)


def test_the_demo_tells_the_story_and_ends_with_what_to_type() -> None:
    code = "from hsforensics.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "demo"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout
    for part in ("1. The number that misleads", "labels lied", "[-1, 2, 5]", "[2, 5, 7]", "Wrong: ", "Repaired: "):
        assert part in told
    assert told.index("Wrong: ") < told.index("On your own files:") < told.index("compare DUMPS --target MODEL")


def test_stdout_of_json_is_one_valid_object() -> None:
    done = CliRunner().invoke(app, ["--json"])
    assert done.exit_code == 0
    jsonschema.validate(json.loads(done.stdout), json_schema("demo"))


def test_an_existing_directory_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["--keep", str(tmp_path)])
    with pytest.raises(HsfError, match="write-refused"):
        raise done.exception or AssertionError
