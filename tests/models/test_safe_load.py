"""torch files from strangers: the right values, or one error that names the file; never code, never garbage."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hsforensics.errors import HsfError
from hsforensics.models.safe_load import load_torch_file
from hsforensics.models.torch_archive import check_archive
from tests.models import attacks

CODE = "dump-unreadable"


def equal_to_honest(loaded: Any) -> bool:
    return all(torch.equal(loaded[key], value) for key, value in attacks.HONEST.items())


@pytest.mark.parametrize("attack", attacks.REFUSED, ids=lambda attack: attack.__name__)
def test_an_attack_is_refused_with_an_error_that_names_the_file(attack: Callable[[Path], Path], tmp_path: Path) -> None:
    path = attack(tmp_path / "sample.pt")
    with pytest.raises(HsfError) as caught:
        load_torch_file(path, CODE)
    assert caught.value.code == CODE
    assert caught.value.where == str(path)
    assert caught.value.message
    assert not attacks.trace_of(path).exists()


@pytest.mark.parametrize("attack", attacks.REFUSED, ids=lambda attack: attack.__name__)
def test_no_refusal_tells_how_to_switch_the_check_off(attack: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(HsfError) as caught:
        load_torch_file(attack(tmp_path / "sample.pt"), CODE)
    shown = str(caught.value)
    assert "weights_only" not in shown
    assert "safe_globals" not in shown


def test_the_payload_would_run_if_it_were_loaded_without_care(tmp_path: Path) -> None:
    path = attacks.payload(tmp_path / "sample.pt")
    torch.load(path, weights_only=False)  # proves that the payload is live
    assert attacks.trace_of(path).exists()


def test_a_refused_payload_is_called_unsafe_by_name(tmp_path: Path) -> None:
    with pytest.raises(HsfError, match=r"unsafe.*(posix|nt)\.system"):
        load_torch_file(attacks.payload(tmp_path / "sample.pt"), CODE)


def test_an_honest_archive_is_mapped_and_equal(tmp_path: Path) -> None:
    path = attacks.honest(tmp_path / "sample.pt")
    assert check_archive(path)
    assert equal_to_honest(load_torch_file(path, CODE))


def test_a_mapped_tensor_can_be_written_to_without_reaching_the_file(tmp_path: Path) -> None:
    path = attacks.honest(tmp_path / "sample.pt")
    before = path.read_bytes()
    load_torch_file(path, CODE)["a"].zero_()
    assert path.read_bytes() == before


def test_a_compressed_archive_is_not_mapped_and_its_values_are_right(tmp_path: Path) -> None:
    path = attacks.deflated(tmp_path / "sample.pt")
    assert not check_archive(path)
    assert equal_to_honest(load_torch_file(path, CODE))


def test_a_file_of_the_old_format_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sample.pt"
    torch.save(attacks.HONEST, path, _use_new_zipfile_serialization=False)
    assert equal_to_honest(load_torch_file(path, CODE))


def test_a_storage_that_two_tensors_share_is_mapped(tmp_path: Path) -> None:
    whole = torch.arange(24.0).view(4, 6)
    torch.save({"whole": whole, "part": whole[:, 2:4]}, tmp_path / "sample.pt")
    assert check_archive(tmp_path / "sample.pt")
    assert load_torch_file(tmp_path / "sample.pt", CODE)["part"].tolist() == whole[:, 2:4].tolist()


DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int64, torch.int32, torch.bool)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tensors=st.dictionaries(
        st.text(min_size=1, max_size=8),
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 5), max_size=3)),
        max_size=6,
    )
)
def test_whatever_torch_saves_is_mapped_and_comes_back_equal(
    tensors: dict[str, tuple[torch.dtype, list[int]]], tmp_path: Path
) -> None:
    saved = {name: torch.ones(shape).cumsum(0).to(dtype) if shape else torch.ones((), dtype=dtype)
             for name, (dtype, shape) in tensors.items()}  # fmt: skip
    path = tmp_path / "sample.pt"
    torch.save({"tensors": saved, "list": list(saved.values())}, path)
    assert check_archive(path)
    loaded = load_torch_file(path, CODE)
    assert loaded["tensors"].keys() == saved.keys()
    assert all(torch.equal(loaded["tensors"][name], value) for name, value in saved.items())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10_000), change=st.integers(1, 255), data=st.data())
def test_a_flipped_byte_ends_in_values_or_a_refusal_and_in_no_other_exception(
    place: int, change: int, data: st.DataObject, tmp_path: Path
) -> None:
    path = attacks.honest(tmp_path / "sample.pt")
    raw = bytearray(path.read_bytes())
    # half of the flips into the first 1500 bytes, where the pickle and the headers are
    place = place % len(raw) if data.draw(st.booleans()) else place % 1500
    raw[place] ^= change
    path.write_bytes(bytes(raw))
    with contextlib.suppress(HsfError):
        load_torch_file(path, CODE)
