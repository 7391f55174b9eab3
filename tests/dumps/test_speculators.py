"""The reader of speculators files: every channel as it was saved, or one error that names file and channel."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hsforensics.dumps import open_dumps
from hsforensics.errors import HsfError
from hsforensics.states import Sample
from tests.dumps import makers


def read(file: Path) -> Sample:
    return open_dumps(file).read(file)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(0, 9),
    count=st.integers(1, 6),
    dtype=st.sampled_from([torch.bfloat16, torch.float16, torch.float32]),
    batched=st.booleans(),
)
def test_every_channel_comes_back_bit_for_bit_in_list_order(
    rows: int, count: int, dtype: torch.dtype, batched: bool, tmp_path: Path
) -> None:
    saved = makers.channels(rows, count, dtype)
    stored = [value[None] for value in saved] if batched else saved
    sample = read(makers.speculators_file(tmp_path / "data_0.pt", rows, hidden_states=stored))
    assert [channel.label for channel in sample.channels] == [f"hidden_states[{i}]" for i in range(count)]
    assert [channel.index for channel in sample.channels] == list(range(count))
    for channel, value in zip(sample.channels, saved, strict=True):
        assert channel.values.dtype == dtype
        assert torch.equal(channel.values, value)
    assert sample.token_ids.tolist() == list(range(rows))


def test_token_ids_of_another_integer_type_become_int64(tmp_path: Path) -> None:
    ids = torch.arange(5, dtype=torch.int32)[None]
    sample = read(makers.speculators_file(tmp_path / "data_0.pt", input_ids=ids))
    assert sample.token_ids.dtype == torch.int64
    assert sample.token_ids.tolist() == [0, 1, 2, 3, 4]


def test_a_missing_loss_mask_is_none_and_a_boolean_one_is_read(tmp_path: Path) -> None:
    assert read(makers.speculators_file(tmp_path / "data_0.pt", loss_mask=None)).loss_mask is None
    mask = torch.tensor([False, True, True, True, False])
    found = read(makers.speculators_file(tmp_path / "data_1.pt", loss_mask=mask)).loss_mask
    assert found is not None
    assert found.tolist() == [0, 1, 1, 1, 0]


def test_rows_that_do_not_fit_the_tokens_are_left_to_the_health_check(tmp_path: Path) -> None:
    file = makers.speculators_file(tmp_path / "data_0.pt", rows=5, hidden_states=makers.channels(3, 4))
    sample = read(file)
    assert len(sample.token_ids) == 5
    assert {len(channel.values) for channel in sample.channels} == {3}


def test_nan_is_left_to_the_health_check(tmp_path: Path) -> None:
    states = [torch.full((5, makers.HIDDEN), float("nan"))]
    assert bool(read(makers.speculators_file(tmp_path / "d.pt", hidden_states=states)).channels[0].values.isnan().all())


VALUES = makers.channels(5, 4)
BROKEN = {
    "a missing list": ({"hidden_states": None}, "hidden_states"),
    "missing ids": ({"input_ids": None}, "input_ids"),
    "an empty list": ({"hidden_states": []}, "empty list"),
    "a tensor instead of a list": ({"hidden_states": VALUES[0]}, "Tensor"),
    "a string in the list": ({"hidden_states": [VALUES[0], "x"]}, r"hidden_states\[1\].*str"),
    "a flat channel": ({"hidden_states": [VALUES[0], VALUES[1].flatten()]}, r"hidden_states\[1\].*\[30\]"),
    "two sequences in a channel": ({"hidden_states": [torch.zeros(2, 5, 6)]}, r"hidden_states\[0\].*\[2, 5, 6\]"),
    "an integer channel": ({"hidden_states": [torch.zeros(5, 6, dtype=torch.int64)]}, r"hidden_states\[0\].*int64"),
    "float token ids": ({"input_ids": torch.zeros(5)}, "input_ids.*float32"),
    "two rows of token ids": ({"input_ids": torch.zeros(2, 5, dtype=torch.int64)}, r"input_ids.*\[2, 5\]"),
    "token ids as a list": ({"input_ids": [1, 2, 3]}, "input_ids.*list"),
    "a float mask": ({"loss_mask": torch.ones(5)}, "loss_mask.*float32"),
    "a sparse channel": ({"hidden_states": [torch.zeros(5, 6).to_sparse()]}, r"hidden_states\[0\].*sparse"),
    "a repeated row that shows a gigabyte": (
        {"hidden_states": [torch.zeros(1, 1024).expand(1 << 18, 1024)]},
        r"hidden_states\[0\] shows 1073741824 bytes but stores 4096",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_of_another_shape_is_refused_naming_file_and_channel(name: str, tmp_path: Path) -> None:
    changes, words = BROKEN[name]
    file = makers.speculators_file(tmp_path / "data_0.pt", **changes)
    with pytest.raises(HsfError, match=words) as caught:
        read(file)
    assert caught.value.code == "dump-unreadable"
    assert caught.value.where == str(file)


def test_control_characters_in_keys_are_shown_escaped(tmp_path: Path) -> None:
    torch.save({"\x1b[2J": 1}, tmp_path / "data_0.pt")
    with pytest.raises(HsfError) as caught:
        read(tmp_path / "data_0.pt")
    assert caught.value.message.isprintable()


def test_a_file_that_holds_no_dictionary_is_refused(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "data_0.pt")
    with pytest.raises(HsfError, match="list"):
        read(tmp_path / "data_0.pt")


def test_another_producers_dictionary_is_refused_with_the_keys_it_holds(tmp_path: Path) -> None:
    torch.save({"input_ids": torch.arange(3), "aux_hidden_state": torch.zeros(1, 3, 6)}, tmp_path / "data_0.pt")
    with pytest.raises(HsfError, match="'aux_hidden_state', 'input_ids'"):
        read(tmp_path / "data_0.pt")
