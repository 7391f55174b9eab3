"""The incident replayed: with predictions, with recordings of an engine, and what must not happen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from hsforensics.capture.manifest import RequestTensors
from hsforensics.capture.reference import reference_bank, reference_header
from hsforensics.capture.store import write_capture
from hsforensics.capture.transformers_model import load_reference
from hsforensics.dumps import open_dumps
from hsforensics.errors import HsfError
from hsforensics.flows.demo import demo
from hsforensics.flows.incident import copy_incident, open_incident
from hsforensics.models.target import load_target
from hsforensics.report.schema import json_schema, to_json
from hsforensics.results import CompareResult, DraftEvalResult, FixConfigResult
from hsforensics.results_demo import ActResult, DemoResult

PREDICTED = ["trainer", "belief", "values", "evidence", "repair", "proof"]
WRONG, RIGHT = (0, 3, 6), (3, 6, 8)


def results(found: DemoResult) -> dict[str, ActResult]:
    return {act.name: act.result for act in found.acts}


def without_captures(folder: Path) -> Path:
    """A copy of the incident without recordings, whatever is committed."""
    folder.mkdir()
    copy_incident(open_incident(), folder)
    shutil.rmtree(folder / "captures", ignore_errors=True)
    return folder


def with_captures(folder: Path) -> Path:
    """A copy of the incident with stand-ins for the recordings: what such an engine would serve, for two sequences."""
    incident = without_captures(folder)
    model = load_reference(load_target(incident / "target"), device="cpu")
    dumps = open_dumps(incident / "dumps")
    tokens = [dumps.read(file).token_ids for file in (dumps.files[0], dumps.files[-1])]
    banks = [reference_bank(model, ids) for ids in tokens]
    live = replace(reference_header(model), kind="live", engine="sglang", engine_version="0.5.22", served=3)
    for name, wiring in (("situation-b", WRONG), ("situation-a", RIGHT)):
        requests = [
            RequestTensors(ids, ids.new_tensor(range(len(ids))), bank, tuple(bank[state].clone() for state in wiring))
            for ids, bank in zip(tokens, banks, strict=True)
        ]
        (incident / "captures").mkdir(exist_ok=True)
        write_capture(incident / "captures" / name, live, requests)
    return incident


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    return demo(without_captures(tmp_path_factory.mktemp("demo") / "incident"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    return demo(with_captures(tmp_path_factory.mktemp("demo") / "incident"))


def test_the_committed_incident_replays_in_under_a_minute() -> None:
    start = time.monotonic()
    found = demo()
    assert time.monotonic() - start < 60
    assert [act.name for act in found.acts][: len(PREDICTED)] == PREDICTED


def test_without_a_recording_serving_is_predicted_and_said_to_be(predicted: DemoResult) -> None:
    assert (predicted.recorded, [act.name for act in predicted.acts]) == (False, PREDICTED)
    evidence = results(predicted)["evidence"]
    assert isinstance(evidence, CompareResult)
    assert (evidence.tier, evidence.served_wiring, evidence.trained_wiring) == ("bank", None, RIGHT)
    assert evidence.predicted is not None
    assert evidence.predicted.states == WRONG
    assert "(predicted)" in predicted.summary[1]


def test_with_recordings_both_servings_are_measured(recorded: DemoResult) -> None:
    assert (recorded.recorded, [act.name for act in recorded.acts]) == (True, [*PREDICTED, "measured"])
    before, after = results(recorded)["evidence"], results(recorded)["measured"]
    assert isinstance(before, CompareResult)
    assert isinstance(after, CompareResult)
    assert (before.verdict, before.served_wiring, before.offsets) == ("misaligned", WRONG, (-3, -3, -2))
    assert (after.verdict, after.served_wiring) == ("aligned", RIGHT)
    assert "(measured)" in recorded.summary[1]


@pytest.mark.parametrize("story", ["predicted", "recorded"])
def test_the_story_believes_refutes_repairs_and_proves(story: str, request: pytest.FixtureRequest) -> None:
    found = results(request.getfixturevalue(story))
    trainer, belief, proof = found["trainer"], found["belief"], found["proof"]
    assert isinstance(trainer, DraftEvalResult)
    assert isinstance(belief, DraftEvalResult)
    assert isinstance(proof, DraftEvalResult)
    counted = [(step.correct, step.positions) for step in trainer.runs[0].accuracy]
    assert counted == list(open_incident().trainer)
    assert belief.runs[0].wiring == WRONG
    assert belief.runs[0].accuracy[0].value < trainer.runs[0].accuracy[0].value - 0.2
    assert {item.code for item in found["values"].findings} >= {"channel-mislabelled"}
    assert [run.wiring for run in proof.runs] == [WRONG, RIGHT]
    assert "draft-best" in {item.code for item in proof.findings}
    repair = found["repair"]
    assert isinstance(repair, FixConfigResult)
    assert (repair.before.states, repair.after.states, repair.after.ids) == (WRONG, RIGHT, (2, 5, 7))
    assert repair.written


@pytest.mark.parametrize("story", ["predicted", "recorded"])
def test_the_json_of_every_act_validates_against_the_schema(story: str, request: pytest.FixtureRequest) -> None:
    found = json.loads(to_json(request.getfixturevalue(story)))
    jsonschema.validate(found, json_schema("demo"))
    for act in found["acts"]:
        jsonschema.validate(act["result"], json_schema(act["result"]["kind"]))


def test_a_kept_copy_holds_what_the_commands_name_and_the_packaged_drafter_is_untouched(tmp_path: Path) -> None:
    before = (open_incident().drafter / "config.json").read_bytes()
    found = demo(without_captures(tmp_path / "incident"), keep=tmp_path / "kept")
    assert found.kept == str(tmp_path / "kept")
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"target", "drafter", "dumps", "truth.json"}
    assert (tmp_path / "kept" / "drafter" / "config.json").read_bytes() == before  # as before the repair
    assert (tmp_path / "incident" / "drafter" / "config.json").read_bytes() == before


def test_the_commands_of_the_story_work_in_the_kept_copy(tmp_path: Path) -> None:
    found = demo(keep=tmp_path / "kept")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    codes = []
    for command in (command for act in found.acts for command in act.commands):
        done = subprocess.run(  # noqa: S602 (commands as a person types them, a redirection among them)
            command, shell=True, cwd=tmp_path / "kept", env=environment, capture_output=True, text=True
        )
        codes.append((command, done.returncode))
    assert {code for _, code in codes} <= {0, 1}, codes
    assert [code for command, code in codes if "--write" in command] == [0]
    assert codes[-1][1] == 0  # the repaired serving is measured to be right


def test_an_existing_directory_to_keep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HsfError) as refused:
        demo(keep=tmp_path)
    assert refused.value.code == "write-refused"


@pytest.mark.parametrize("text", [None, "{", "[]", '{"wrong_fix": {}}'])
def test_files_that_are_not_there_are_said_to_be_missing(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "truth.json").write_text(text)
    with pytest.raises(HsfError) as refused:
        open_incident(tmp_path)
    assert refused.value.code == "not-found"


def test_without_transformers_the_recordings_are_the_bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    incident = with_captures(tmp_path / "incident")
    monkeypatch.setattr("hsforensics.flows.demo.importlib.util.find_spec", lambda _name: None)
    found = results(demo(incident))
    proof = found["proof"]
    assert isinstance(proof, DraftEvalResult)
    assert proof.runs[0].sequences == 2
    assert "draft-undecided" in {item.code for item in proof.findings}  # too few sequences to name a best wiring


def test_the_believed_wiring_is_the_one_that_the_committed_config_serves() -> None:
    config = json.loads((open_incident().drafter / "config.json").read_text())
    ids = config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    assert open_incident().believed == tuple(number + 1 for number in ids)


def test_the_package_ships_every_part_that_the_demo_opens() -> None:
    root = Path(__file__).resolve().parents[2]
    wheel = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    for name in ("target", "drafter", "dumps", "captures", "truth.json"):
        assert wheel["force-include"][f"fixtures/incident/{name}"] == f"hsforensics/incident/{name}"
        assert (root / "fixtures" / "incident" / name).exists()
