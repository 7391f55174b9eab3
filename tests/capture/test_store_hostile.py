"""Captures of strangers: numbers that would hang a reader or switch checks off, and tensors of other kinds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hsforensics.capture import store
from hsforensics.capture.manifest import token_ids_sha256
from hsforensics.capture.store import Capture, open_capture, write_capture
from hsforensics.errors import HsfError
from tests.capture import makers
from tests.capture.makers import code_of


@pytest.fixture
def live(tmp_path: Path) -> Capture:
    head = makers.header(served=2, ranks=2)
    return write_capture(tmp_path / "live", head, [makers.request(5, head, seed=n, fc_input=True) for n in range(2)])


def _edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    file = path / "manifest.json"
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


def _alter(path: Path, number: int, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    """Change a request's tensors and make size and hash right again, as whoever forges a capture would."""
    file = sorted(path.glob("request-*"))[number]
    save_file(change(load_file(file)), file)
    told = {"bytes": file.stat().st_size, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    _edit(path, lambda data: data["requests"][number].update(told))


# -- numbers -----------------------------------------------------------------------------------------------------------

HUGE = (10**5, 10**8, 10**30, 2**63)
NUMBERS = [
    *[("layers", value) for value in (*HUGE, 0, -5, 1, "2", 2.0, True, None)],
    *[("hidden_size", value) for value in (10**8, 10**30, 0, -1, "4", 4.0, True)],
    *[("served", value) for value in (*HUGE, 500, -1, "2", True)],
    *[("ranks", value) for value in (*HUGE, 4096, 0, -1, -3, "2", True, None)],
    *[("states", value) for value in ([0, 0, 1], [1, 0], [0, 3], [0, "mid:2"], ["1"], [0, True], [0, 1.0], [-1])],
    *[("states", value) for value in (["postnorm", 2], ["mid:01"], ["mid:" + "9" * 5000], [[0]], 3, "0")],
]


@pytest.mark.parametrize(("key", "value"), NUMBERS)
def test_numbers_that_no_capture_holds_are_refused_before_anything_is_read(
    key: str, value: object, live: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    _edit(live.path, lambda data: data.update({key: value}))
    monkeypatch.setattr(store, "_opened", None)
    with pytest.raises(HsfError) as refused:
        open_capture(live.path)
    assert refused.value.code == "capture-foreign"
    assert key in refused.value.message or "cannot be" in refused.value.message
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize(("key", "value"), [("rows", -1), ("rows", "5"), ("rows", True), ("bytes", -1), ("bytes", 1)])
def test_entries_that_cannot_be_are_refused(key: str, value: object, live: Capture) -> None:
    _edit(live.path, lambda data: data["requests"][1].update({key: value}))
    assert code_of(lambda: open_capture(live.path)) == "capture-foreign"


def test_a_request_that_is_listed_twice_is_refused(live: Capture) -> None:
    _edit(live.path, lambda data: data["requests"].append(data["requests"][0]))
    with pytest.raises(HsfError, match=r"request-00000\.safetensors more than once"):
        open_capture(live.path)


@pytest.mark.parametrize(("key", "value"), [("served", 3), ("served", 9), ("ranks", 3), ("ranks", 4)])
def test_a_promise_that_the_bytes_allow_is_held_against_the_file(key: str, value: int, live: Capture) -> None:
    _edit(live.path, lambda data: data.update({key: value}))
    opened = open_capture(live.path)
    with pytest.raises(HsfError, match=r"'(rank\d+\.)?served\.\d+' must be .*, got nothing") as refused:
        opened.read(opened.requests[0])
    assert refused.value.code == "capture-unfinished"


@pytest.mark.parametrize("layers", [0, 1, 10**8])
def test_what_could_not_be_read_again_is_not_written(layers: int, tmp_path: Path) -> None:
    head = makers.header(layers=layers)
    with pytest.raises(ValueError, match="must"):
        write_capture(tmp_path / "cap", head, [makers.request(3, head)])
    assert list(tmp_path.iterdir()) == []


# -- kinds of numbers --------------------------------------------------------------------------------------------------

WIDE = ("state.0", "mid.1", "postnorm", "served.1", "rank1.served.0", "fc_input")
NOT_FLOAT = (torch.complex64, torch.int32, torch.int64, torch.int8, torch.uint8, torch.bool)
NOT_INT64 = (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int32, torch.int16, torch.bool, torch.complex64)
KINDS = [
    *[(name, dtype) for name in WIDE for dtype in NOT_FLOAT],
    *[(name, dtype) for name in ("token_ids", "positions") for dtype in NOT_INT64],
]


@pytest.mark.parametrize(("name", "dtype"), KINDS)
@pytest.mark.parametrize("number", [0, 1])
def test_a_tensor_of_another_kind_is_refused(name: str, dtype: torch.dtype, number: int, live: Capture) -> None:
    _alter(live.path, number, lambda held: {**held, name: held[name].to(dtype)})
    opened = open_capture(live.path)
    with pytest.raises(HsfError, match=f"its tensor '{name}' must be") as refused:
        opened.read(opened.requests[number])
    assert refused.value.code == "capture-unfinished"
    assert opened.read(opened.requests[1 - number]).positions.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.float8_e4m3fn])
@pytest.mark.parametrize("name", WIDE)
def test_floats_of_any_width_are_read(name: str, dtype: torch.dtype, live: Capture) -> None:
    _alter(live.path, 0, lambda held: {**held, name: held[name].to(dtype)})
    opened = open_capture(live.path)
    assert opened.read(opened.requests[0]).token_ids.dtype == torch.int64


# -- tokens ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1])
def test_a_forged_hash_of_the_tokens_is_found_when_the_request_is_read(number: int, live: Capture) -> None:
    """Requests of equal length and one hash would count as one window: only the first of them would be judged."""
    other = live.requests[1 - number].token_ids_sha256
    _edit(live.path, lambda data: data["requests"][number].update(token_ids_sha256=other))
    opened = open_capture(live.path)
    for _ in range(2):
        with pytest.raises(HsfError, match="tokens are not those") as refused:
            opened.read(opened.requests[number])
        assert refused.value.code == "capture-unfinished"
    told = opened.read(opened.requests[1 - number])
    assert token_ids_sha256(told.token_ids) == other
