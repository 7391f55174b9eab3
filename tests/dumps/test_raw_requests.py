"""The reader of raw request directories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from hsforensics.dumps import open_dumps
from hsforensics.errors import HsfError
from hsforensics.states import Sample
from tests.dumps import makers


def read(folder: Path) -> Sample:
    return open_dumps(folder).read(folder)


def test_channels_are_the_numbered_files_in_numeric_order_and_then_final(tmp_path: Path) -> None:
    sample = read(makers.request(tmp_path / "r", count=11))
    assert [channel.label for channel in sample.channels] == [*(f"aux_{i}" for i in range(11)), "final"]
    saved = makers.channels(5, 12)
    assert all(torch.equal(channel.values, saved[channel.index]) for channel in sample.channels)


def test_a_batch_axis_of_one_is_dropped(tmp_path: Path) -> None:
    folder = makers.request(tmp_path / "r")
    torch.save(torch.ones(1, 5, makers.HIDDEN), folder / "aux_0.pt")
    assert read(folder).channels[0].values.shape == (5, makers.HIDDEN)


def test_a_request_without_final_has_only_its_aux_channels(tmp_path: Path) -> None:
    sample = read(makers.request(tmp_path / "r", final=False))
    assert [channel.label for channel in sample.channels] == ["aux_0", "aux_1", "aux_2"]


@pytest.mark.parametrize("name", ["input_ids.pt", "token_ids.pt", "tokens.pt"])
def test_token_ids_are_read_from_a_tensor(name: str, tmp_path: Path) -> None:
    folder = makers.request(tmp_path / "r", tokens=False)
    torch.save(torch.tensor([[7, 8, 9]]), folder / name)
    assert read(folder).token_ids.tolist() == [7, 8, 9]


@pytest.mark.parametrize("name", ["token_ids.json", "input_ids.json", "meta.json", "metadata.json"])
@pytest.mark.parametrize("key", ["token_ids", "input_ids", "tokens"])
def test_token_ids_are_read_from_a_json_object(name: str, key: str, tmp_path: Path) -> None:
    folder = makers.request(tmp_path / "r", tokens=False)
    (folder / name).write_text(json.dumps({"rid": "x", key: [7, 8, 9]}))
    assert read(folder).token_ids.tolist() == [7, 8, 9]


@pytest.mark.parametrize("ids", [[7, 8, 9], [[7, 8, 9]]])
def test_token_ids_are_read_from_a_json_list(ids: list[object], tmp_path: Path) -> None:
    folder = makers.request(tmp_path / "r", tokens=False)
    (folder / "token_ids.json").write_text(json.dumps(ids))
    sample = read(folder)
    assert sample.token_ids.dtype == torch.int64
    assert sample.token_ids.tolist() == [7, 8, 9]


def test_a_loss_mask_is_read_when_there_is_one(tmp_path: Path) -> None:
    folder = makers.request(tmp_path / "r")
    assert read(folder).loss_mask is None
    torch.save(torch.tensor([0, 0, 1, 1, 1]), folder / "loss_mask.pt")
    found = read(folder).loss_mask
    assert found is not None
    assert found.tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "text", ["{", "[1.5]", '["a"]', "[true]", '{"token_ids": 3}', "[99999999999999999999]", "[" * 100_000]
)
def test_token_ids_that_are_no_list_of_integers_are_refused(text: str, tmp_path: Path) -> None:
    folder = makers.request(tmp_path / "r", tokens=False)
    (folder / "token_ids.json").write_text(text)
    with pytest.raises(HsfError) as caught:
        read(folder)
    assert caught.value.code == "dump-unreadable"
    assert caught.value.where == str(folder / "token_ids.json")


def test_a_request_without_token_ids_is_refused_with_the_known_names(tmp_path: Path) -> None:
    folder = makers.request(tmp_path / "r", tokens=False)
    (folder / "meta.json").write_text('{"rid": "x"}')
    with pytest.raises(HsfError, match=r"no token ids.*input_ids\.pt.*meta\.json"):
        read(folder)


def test_a_request_that_was_cut_off_is_listed_and_refused_and_not_passed_over(tmp_path: Path) -> None:
    makers.request(tmp_path / "r0")
    (tmp_path / "r1").mkdir()
    torch.save(torch.arange(5), tmp_path / "r1" / "token_ids.pt")
    dumps = open_dumps(tmp_path)
    assert [file.name for file in dumps.files] == ["r0", "r1"]
    with pytest.raises(HsfError, match="incomplete"):
        dumps.read(tmp_path / "r1")


def test_a_torn_channel_is_refused_by_its_own_name(tmp_path: Path) -> None:
    folder = makers.request(tmp_path / "r")
    (folder / "aux_1.pt").write_bytes(b"PK\x03\x04torn")
    with pytest.raises(HsfError) as caught:
        read(folder)
    assert caught.value.where == str(folder / "aux_1.pt")


def test_a_request_that_vanished_is_refused(tmp_path: Path) -> None:
    folder = makers.request(tmp_path / "r")
    dumps = open_dumps(folder)
    folder.rename(tmp_path / "moved")
    with pytest.raises(HsfError, match="cannot be listed"):
        dumps.read(folder)
