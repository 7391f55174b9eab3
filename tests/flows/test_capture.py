"""The capture flow: the very tokens of the dumps, whole or refused, with every unreadable file named."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch

from hsforensics.capture.store import open_capture
from hsforensics.errors import HsfError
from hsforensics.flows.capture import capture_reference
from hsforensics.models.target import load_target
from tests.capture.families import HIDDEN, LAYERS, VOCAB, save_model
from tests.dumps import makers


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model("llama", tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    for index, rows in enumerate((5, 7, 3)):
        ids = (torch.arange(rows) * 7 + index) % VOCAB
        makers.speculators_file(tmp_path / "dumps" / f"data_{index}.pt", rows, input_ids=ids)
    return tmp_path / "dumps"


def capture(dumps: Path, target: Path, out: Path, **options: Any) -> Any:
    return capture_reference(dumps, target, out, device="cpu", **({"dtype": "fp32"} | options))


def refusal(*arguments: Path, **options: Any) -> HsfError:
    with pytest.raises(HsfError) as caught:
        capture(*arguments, **options)
    return caught.value


def test_the_tokens_of_every_sample_are_captured_in_order(dumps: Path, target: Path, tmp_path: Path) -> None:
    result = capture(dumps, target, tmp_path / "cap")
    found = open_capture(tmp_path / "cap")
    tokens = [found.read(entry).token_ids.tolist() for entry in found.requests]
    assert tokens == [[(row * 7 + index) % VOCAB for row in range(rows)] for index, rows in enumerate((5, 7, 3))]
    assert (result.requests, result.rows) == (3, 15)
    assert result.states == (*range(LAYERS + 1), "postnorm")
    assert result.bytes == sum(file.stat().st_size for file in (tmp_path / "cap").iterdir())
    assert result.findings == ()


def test_the_stored_states_are_those_of_the_target(dumps: Path, target: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    capture(dumps, target, tmp_path / "cap")
    found = open_capture(tmp_path / "cap")
    request = found.read(found.requests[1])
    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32)
    with torch.no_grad():
        own = model(request.token_ids[None], output_hidden_states=True).hidden_states
    assert all(torch.equal(request.state(state), own[state][0]) for state in range(LAYERS))
    assert torch.equal(request.state("postnorm"), own[LAYERS][0])


def test_the_manifest_and_the_provenance_name_the_target_and_the_dumps(
    dumps: Path, target: Path, tmp_path: Path
) -> None:
    result = capture(dumps, target, tmp_path / "cap", dtype="bf16")
    manifest = open_capture(tmp_path / "cap").manifest
    assert manifest.target_config_sha256 == load_target(target).config_sha256
    assert (manifest.kind, manifest.engine, manifest.dtype) == ("reference", "transformers", "bfloat16")
    origin = result.provenance
    assert (origin.target_path, origin.layers, origin.hidden_size) == (str(target), LAYERS, HIDDEN)
    assert (origin.capture_path, origin.dtype, origin.device) == (str(tmp_path / "cap"), "bfloat16", "cpu")
    (source,) = origin.dumps
    assert (source.path, source.producer, source.samples, source.dtype) == (
        str(dumps),
        "speculators 0.3/0.4",
        3,
        "bfloat16",
    )


def test_request_directories_are_captured_too(target: Path, tmp_path: Path) -> None:
    makers.request(tmp_path / "raw" / "r0")
    assert capture(tmp_path / "raw", target, tmp_path / "cap").rows == 5


def test_limits_cut_samples_and_rows(dumps: Path, target: Path, tmp_path: Path) -> None:
    result = capture(dumps, target, tmp_path / "cap", max_samples=2, max_tokens=6)
    assert [entry.rows for entry in open_capture(tmp_path / "cap").requests] == [5, 6]
    assert (result.requests, result.rows) == (2, 11)


def test_middle_states_are_stored_when_asked_for(dumps: Path, target: Path, tmp_path: Path) -> None:
    result = capture(dumps, target, tmp_path / "cap", middle=True, max_samples=1)
    assert result.states == (0, "mid:0", 1, "mid:1", 2, "mid:2", 3, "postnorm")


def test_progress_is_told_before_the_work_and_after_every_request(dumps: Path, target: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    capture(dumps, target, tmp_path / "cap", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_torn_file_is_a_finding_and_the_others_are_captured(dumps: Path, target: Path, tmp_path: Path) -> None:
    (dumps / "data_1.pt").write_text("torn")
    result = capture(dumps, target, tmp_path / "cap")
    assert result.requests == 2
    (found,) = result.findings
    assert (found.code, found.severity, found.where) == ("file-unreadable", "error", str(dumps / "data_1.pt"))


def test_a_torn_file_does_not_count_as_one_of_the_samples_asked_for(dumps: Path, target: Path, tmp_path: Path) -> None:
    (dumps / "data_0.pt").write_text("torn")
    assert capture(dumps, target, tmp_path / "cap", max_samples=2).requests == 2


def test_a_sample_without_tokens_is_a_finding(dumps: Path, target: Path, tmp_path: Path) -> None:
    makers.speculators_file(dumps / "data_0.pt", rows=0)
    result = capture(dumps, target, tmp_path / "cap")
    assert result.requests == 2
    assert [found.where for found in result.findings] == ["data_0.pt"]


def test_when_nothing_can_be_read_nothing_is_captured(dumps: Path, target: Path, tmp_path: Path) -> None:
    for file in dumps.iterdir():
        file.write_text("torn")
    error = refusal(dumps, target, tmp_path / "cap")
    assert error.code == "nothing-compared"
    assert "3 samples" in error.message
    assert not (tmp_path / "cap").exists()


@pytest.mark.parametrize("token", [VOCAB, -1, 10**12])
def test_tokens_of_another_vocabulary_are_refused_by_file_position_and_id(
    token: int, dumps: Path, target: Path, tmp_path: Path
) -> None:
    ids = torch.tensor([3, 4, token, 5, token])
    file = makers.speculators_file(dumps / "data_1.pt", 5, input_ids=ids)
    error = refusal(dumps, target, tmp_path / "cap")
    assert (error.code, error.where) == ("dump-unreadable", str(file))
    assert f"token id {token} at position 2" in error.message
    assert f"vocabulary of {VOCAB}" in error.message
    assert "wrong target?" in error.remedy


def test_a_disk_without_room_is_refused_before_the_model_is_loaded(
    dumps: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = 15 * ((LAYERS + 2) * HIDDEN * 4 + 16)
    usage = namedtuple("usage", "free")
    (target_copy := tmp_path / "target").mkdir()
    shutil.copy(target / "config.json", target_copy)  # without weights: loading it would fail
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(needed))
    error = refusal(dumps, target_copy, tmp_path / "no" / "such" / "cap")
    assert error.code == "write-refused"
    assert "15 rows of 5 states" in error.message
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(int(needed * 1.06)))
    assert refusal(dumps, target_copy, tmp_path / "cap").code == "target-unreadable"


def test_an_occupied_destination_is_refused_unless_forced(dumps: Path, target: Path, tmp_path: Path) -> None:
    capture(dumps, target, tmp_path / "cap")
    assert refusal(dumps, target, tmp_path / "cap").code == "write-refused"
    assert capture(dumps, target, tmp_path / "cap", force=True, max_samples=1).requests == 1


def test_the_dumps_are_left_as_they_were(dumps: Path, target: Path, tmp_path: Path) -> None:
    before = {file: file.read_bytes() for file in dumps.iterdir()}
    capture(dumps, target, tmp_path / "cap")
    assert {file: file.read_bytes() for file in dumps.iterdir()} == before
