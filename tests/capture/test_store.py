"""A capture comes back bit for bit, and says so when it was touched."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hsforensics
from hsforensics.capture.store import (
    Capture,
    RequestTensors,
    is_capture,
    open_capture,
    token_ids_sha256,
    write_capture,
)
from hsforensics.errors import HsfError
from hsforensics.states import State
from tests.capture import makers
from tests.capture.makers import code_of

# -- round trip ------------------------------------------------------------------------------------------------------

ANY_STATE = st.one_of(st.integers(0, 60), st.just("postnorm"), st.integers(0, 60).map(lambda i: f"mid:{i}"))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    states=st.sets(ANY_STATE, min_size=1, max_size=6),
    rows=st.lists(st.integers(0, 7), min_size=1, max_size=3),
    hidden_size=st.integers(1, 5),
    served=st.integers(0, 3),
    dtype=st.sampled_from([torch.bfloat16, torch.float16, torch.float32]),
    fc_input=st.booleans(),
    ranks=st.integers(1, 3),
)
def test_every_tensor_comes_back_bit_for_bit(
    states: set[State],
    rows: list[int],
    hidden_size: int,
    served: int,
    dtype: torch.dtype,
    fc_input: bool,
    ranks: int,
    tmp_path: Path,
) -> None:
    shutil.rmtree(tmp_path / "cap", ignore_errors=True)
    head = makers.header(tuple(states), hidden_size, served, ranks, layers=61)
    requests = [makers.request(count, head, dtype, seed, fc_input) for seed, count in enumerate(rows)]
    write_capture(tmp_path / "cap", head, iter(requests))
    found = open_capture(tmp_path / "cap")
    found.verify()
    assert [entry.rows for entry in found.requests] == rows
    for entry, written in zip(found.requests, requests, strict=True):
        read = found.read(entry)
        assert set(read.states) == states
        assert torch.equal(read.token_ids, written.token_ids)
        assert torch.equal(read.positions, written.positions)
        for state in states:
            assert read.state(state).dtype == dtype
            assert torch.equal(read.state(state), written.states[state])
        assert [channel.label for channel in read.served] == [f"served.{i}" for i in range(served)]
        pairs = zip(read.served, written.served, strict=True)
        assert all(torch.equal(channel.values, value) for channel, value in pairs)
        assert len(read.ranks) == ranks - 1
        for rank, held in zip(read.ranks, written.ranks, strict=True):
            assert all(torch.equal(value, wrote) for value, wrote in zip(rank, held, strict=True))
        assert (read.fc_input is None) == (written.fc_input is None)
        if read.fc_input is not None and written.fc_input is not None:
            assert torch.equal(read.fc_input, written.fc_input)


def test_the_manifest_repeats_the_header_and_says_who_wrote_it(capture: Capture) -> None:
    head = makers.header(served=2)
    assert {name: getattr(capture.manifest, name) for name in vars(head)} == vars(head)
    assert capture.manifest.producer == f"hsforensics {hsforensics.__version__}"
    assert capture.manifest.states == (0, 1, "mid:1", 2, "postnorm")


def test_equal_token_ids_have_one_hash_on_every_machine() -> None:
    ids = torch.tensor([1, 256, 1 << 40])
    assert token_ids_sha256(ids) == hashlib.sha256(struct.pack("<3q", 1, 256, 1 << 40)).hexdigest()
    assert token_ids_sha256(ids.int()) != token_ids_sha256(ids)  # 1 << 40 does not fit
    assert token_ids_sha256(ids[:2].int()) == token_ids_sha256(ids[:2])
    assert token_ids_sha256(ids) != token_ids_sha256(ids.flip(0))


def test_non_contiguous_tensors_are_written(tmp_path: Path) -> None:
    head = makers.header((0,))
    wide = torch.randn(4, 3).T  # [3, 4]
    write_capture(tmp_path / "cap", head, [RequestTensors(torch.arange(3), torch.arange(3), {0: wide})])
    found = open_capture(tmp_path / "cap")
    assert torch.equal(found.read(found.requests[0]).state(0), wide)


def test_a_state_that_is_not_there_is_a_usage_error_that_names_those_that_are(capture: Capture) -> None:
    request = capture.read(capture.requests[0])
    with pytest.raises(HsfError, match="no state mid:0, only 0, 1, mid:1, 2, postnorm") as caught:
        request.state("mid:0")
    assert caught.value.code == "usage"


def test_files_are_private_to_their_owner(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        head = makers.header()
        path = write_capture(tmp_path / "cap", head, [makers.request(2, head)]).path
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}


# -- tampering -------------------------------------------------------------------------------------------------------


def edit_manifest(path: Path, **changes: object) -> None:
    file = path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_missing_file_is_unfinished(capture: Capture) -> None:
    (capture.path / capture.requests[1].file).unlink()
    assert code_of(lambda: open_capture(capture.path)) == "capture-unfinished"


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_of_another_size_is_unfinished(change: int, capture: Capture) -> None:
    file = capture.path / capture.requests[0].file
    os.truncate(file, file.stat().st_size + change)
    assert code_of(lambda: open_capture(capture.path)) == "capture-unfinished"


def test_a_link_in_the_place_of_a_file_is_unfinished(capture: Capture, tmp_path: Path) -> None:
    file = capture.path / capture.requests[0].file
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert code_of(lambda: open_capture(capture.path)) == "capture-unfinished"


def test_a_flipped_byte_of_the_data_is_found_by_verify(capture: Capture) -> None:
    file = capture.path / capture.requests[1].file
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    assert code_of(open_capture(capture.path).verify) == "capture-unfinished"


def test_a_torn_header_of_a_request_is_unfinished(capture: Capture) -> None:
    file = capture.path / capture.requests[1].file
    data = bytearray(file.read_bytes())
    data[8:20] = b"x" * 12
    file.write_bytes(bytes(data))
    found = open_capture(capture.path)
    assert code_of(lambda: found.read(found.requests[1])) == "capture-unfinished"


def test_two_swapped_requests_are_noticed_without_reading_the_data(capture: Capture) -> None:
    first, second = (capture.path / entry.file for entry in capture.requests)
    middle = first.with_suffix(".swap")
    for old, new in ((first, middle), (second, first), (middle, second)):
        old.rename(new)
    assert code_of(lambda: open_capture(capture.path)) == "capture-unfinished"


def test_a_request_that_lacks_a_promised_state_is_unfinished(capture: Capture) -> None:
    edit_manifest(capture.path, states=[0, "mid:0", 1, "mid:1", 2, "postnorm"])
    found = open_capture(capture.path)
    with pytest.raises(HsfError, match=r"mid\.0") as caught:
        found.read(found.requests[0])
    assert caught.value.code == "capture-unfinished"


FOREIGN = {
    "another format": {"format": "other"},
    "a newer version": {"version": 2},
    "an unknown kind": {"kind": "dream"},
    "text for a number": {"layers": "two"},
    "requests that are no list": {"requests": 3},
    "a path out of the directory": {
        "requests": [{"file": "../../secret", "rows": 1, "bytes": 1, "sha256": "", "token_ids_sha256": ""}]
    },
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_manifest_of_another_kind_is_foreign(name: str, capture: Capture) -> None:
    edit_manifest(capture.path, **FOREIGN[name])
    assert code_of(lambda: open_capture(capture.path)) == "capture-foreign"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"null", b"[" * 100_000])
def test_a_broken_manifest_is_foreign(data: bytes, capture: Capture) -> None:
    (capture.path / "manifest.json").write_bytes(data)
    assert code_of(lambda: open_capture(capture.path)) == "capture-foreign"


def test_a_directory_without_manifest_is_foreign(tmp_path: Path) -> None:
    assert code_of(lambda: open_capture(tmp_path)) == "capture-foreign"
    assert not is_capture(tmp_path)


def test_a_path_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    assert code_of(lambda: open_capture(tmp_path / "nothing")) == "not-found"
    assert code_of(lambda: open_capture(tmp_path / "no" / "thing")) == "not-found"


def test_a_capture_of_any_version_is_recognised_as_one(capture: Capture) -> None:
    assert is_capture(capture.path)
    edit_manifest(capture.path, version=7)
    assert is_capture(capture.path)


def test_altered_bytes_are_found_when_a_request_is_read(capture: Capture) -> None:
    """A flipped byte changes no size and no header, and would drop or move rows without a word."""
    file = capture.path / capture.requests[0].file
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 0xFF
    file.write_bytes(raw)
    opened = open_capture(capture.path)
    assert code_of(lambda: opened.read(opened.requests[0])) == "capture-unfinished"
    assert opened.read(opened.requests[1]).token_ids.shape == (5,)


def test_served_states_may_be_the_very_tensors_of_the_bank(tmp_path: Path) -> None:
    """A live hook hands over what it recorded, not copies."""
    head = makers.header(served=1)
    base = makers.request(3, head)
    written = write_capture(tmp_path / "cap", head, [replace(base, served=(base.states[0],))])
    assert torch.equal(written.read(written.requests[0]).served[0].values, base.states[0])
