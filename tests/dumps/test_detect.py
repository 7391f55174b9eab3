"""The detector: which layout, which samples in which order, and who claims what."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsforensics.dumps import open_dumps
from hsforensics.errors import HsfError
from tests.dumps import makers


def test_speculators_files_are_sorted_by_number(tmp_path: Path) -> None:
    for index in (10, 2, 0, 1):
        makers.speculators_file(tmp_path / f"data_{index}.pt")
    dumps = open_dumps(tmp_path)
    assert [file.name for file in dumps.files] == ["data_0.pt", "data_1.pt", "data_2.pt", "data_10.pt"]
    assert dumps.producer == "speculators 0.3/0.4"


def test_files_in_nested_directories_are_found_and_named_by_their_place(tmp_path: Path) -> None:
    for part in ("rows_10", "rows_9"):
        makers.speculators_file(tmp_path / part / "data_0.pt")
    dumps = open_dumps(tmp_path)
    assert [dumps.read(file).name for file in dumps.files] == ["rows_9/data_0.pt", "rows_10/data_0.pt"]


def test_request_directories_are_sorted_by_number(tmp_path: Path) -> None:
    for name in ("req_10", "req_9"):
        makers.request(tmp_path / name)
    dumps = open_dumps(tmp_path)
    assert dumps.producer == "raw request directories"
    assert [folder.name for folder in dumps.files] == ["req_9", "req_10"]


def test_a_single_file_is_a_dump_of_one_sample(tmp_path: Path) -> None:
    file = makers.speculators_file(tmp_path / "some_name.pt")
    assert open_dumps(file).files == (file,)
    assert open_dumps(file).read(file).name == "some_name.pt"


def test_a_single_request_directory_is_a_dump_of_one_sample(tmp_path: Path) -> None:
    folder = makers.request(tmp_path / "r1")
    assert open_dumps(folder).files == (folder,)


def test_hidden_directories_hold_no_samples(tmp_path: Path) -> None:
    makers.speculators_file(tmp_path / "data_0.pt")
    makers.speculators_file(tmp_path / ".trash" / "data_1.pt")
    assert len(open_dumps(tmp_path).files) == 1


def test_opening_reads_no_more_than_one_good_file(tmp_path: Path) -> None:
    makers.speculators_file(tmp_path / "data_0.pt")
    (tmp_path / "data_1.pt").write_text("torn")
    dumps = open_dumps(tmp_path)
    assert len(dumps.files) == 2
    with pytest.raises(HsfError, match=r"data_1\.pt"):
        dumps.read(dumps.files[1])


def test_an_unknown_layout_is_refused_with_what_is_there_and_what_is_known(tmp_path: Path) -> None:
    (tmp_path / "hs_0.safetensors").write_bytes(b"")
    (tmp_path / "dataset.arrow").write_bytes(b"")
    with pytest.raises(HsfError) as caught:
        open_dumps(tmp_path)
    assert caught.value.code == "dump-unknown"
    for word in ("hs_0.safetensors", "1 .arrow", "data_{i}.pt", "aux_0.pt"):
        assert word in caught.value.message


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HsfError, match="no files") as caught:
        open_dumps(tmp_path)
    assert caught.value.code == "dump-unknown"


def test_a_missing_path_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(HsfError) as caught:
        open_dumps(tmp_path / "nothing")
    assert caught.value.code == "not-found"


def test_a_single_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(HsfError) as caught:
        open_dumps(tmp_path / "a.json")
    assert caught.value.code == "dump-unknown"


def test_two_layouts_in_one_place_are_refused(tmp_path: Path) -> None:
    makers.speculators_file(tmp_path / "a" / "data_0.pt")
    makers.request(tmp_path / "b" / "req_0")
    with pytest.raises(HsfError, match=r"speculators.*1 samples.*raw request") as caught:
        open_dumps(tmp_path)
    assert caught.value.code == "dump-unknown"


# -- claims ----------------------------------------------------------------------------------------------------------


def test_recorded_layer_ids_claim_the_state_after_that_layer(tmp_path: Path) -> None:
    file = makers.speculators_file(tmp_path / "data_0.pt")
    makers.config(tmp_path, [-1, 2, 14, 29])
    dumps = open_dumps(tmp_path)
    assert dumps.claims == (0, 3, 15, 30)
    assert dumps.claim_source is not None
    assert dumps.claim_source.startswith("data_config.json")
    assert [channel.claim for channel in dumps.read(file).channels] == [0, 3, 15, 30]


def test_a_config_at_the_root_claims_for_request_directories_too(tmp_path: Path) -> None:
    makers.request(tmp_path / "r0")
    makers.config(tmp_path, [-1, 2, 14, 29])
    assert open_dumps(tmp_path).claims == (0, 3, 15, 30)


def test_configs_beside_nested_files_claim_when_they_agree(tmp_path: Path) -> None:
    for part in ("a", "b"):
        makers.speculators_file(tmp_path / part / "data_0.pt")
        makers.config(tmp_path / part, [2, 15, 27, 29])
    assert open_dumps(tmp_path).claims == (3, 16, 28, 30)


def test_configs_that_contradict_each_other_claim_nothing(tmp_path: Path) -> None:
    for part, first in (("a", 2), ("b", 1)):
        makers.speculators_file(tmp_path / part / "data_0.pt")
        makers.config(tmp_path / part, [first, 15, 27, 29])
    assert open_dumps(tmp_path).claims is None


@pytest.mark.parametrize("ids", [[2, 15, 27], [2, 15, 27, -2], [True, 1, 2, 3], ["2", 3, 4, 5], [2.0, 3, 4, 5], []])
def test_ids_that_do_not_fit_claim_nothing(ids: list[object], tmp_path: Path) -> None:
    makers.speculators_file(tmp_path / "data_0.pt")
    makers.config(tmp_path, ids)
    dumps = open_dumps(tmp_path)
    assert (dumps.claims, dumps.claim_source) == (None, None)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"hidden_states": null}', '{"hidden_states": {"layer_ids": 3}}', "\udcff"]
)
def test_a_broken_config_claims_nothing_and_stops_nothing(text: str, tmp_path: Path) -> None:
    file = makers.speculators_file(tmp_path / "data_0.pt")
    (tmp_path / "data_config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    dumps = open_dumps(tmp_path)
    assert dumps.claims is None
    assert [channel.claim for channel in dumps.read(file).channels] == [None] * 4


def test_claims_of_the_command_line_win(tmp_path: Path) -> None:
    makers.speculators_file(tmp_path / "data_0.pt")
    makers.config(tmp_path, [-1, 2, 14, 29])
    dumps = open_dumps(tmp_path, claims=(3, 15, 27, "postnorm"))
    assert (dumps.claims, dumps.claim_source) == ((3, 15, 27, "postnorm"), "--claims")


def test_claims_of_another_count_are_a_usage_error_that_names_both_counts(tmp_path: Path) -> None:
    makers.speculators_file(tmp_path / "data_0.pt")
    with pytest.raises(HsfError, match="3 claims for 4 channels") as caught:
        open_dumps(tmp_path, claims=(3, 15, 27))
    assert caught.value.code == "usage"


def test_the_count_is_taken_from_the_first_readable_file(tmp_path: Path) -> None:
    (tmp_path / "data_0.pt").write_text("torn")
    makers.speculators_file(tmp_path / "data_1.pt", count=3)
    makers.config(tmp_path, [2, 14, 26])
    assert open_dumps(tmp_path).claims == (3, 15, 27)


def test_a_sample_with_another_number_of_channels_carries_no_claims(tmp_path: Path) -> None:
    makers.speculators_file(tmp_path / "data_0.pt", count=4)
    odd = makers.speculators_file(tmp_path / "data_1.pt", count=3)
    makers.config(tmp_path, [-1, 2, 14, 29])
    assert [channel.claim for channel in open_dumps(tmp_path).read(odd).channels] == [None] * 3
