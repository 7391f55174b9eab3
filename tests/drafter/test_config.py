"""Where a drafter's config keeps its ids, what an engine reads of it, and what is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from hsforensics.drafter.config import DrafterConfig, ids_read_by, parse_drafter_config, predict, read_drafter_config
from hsforensics.errors import HsfError
from hsforensics.rules.lookup import find_reading

DEEPSEEK = "DeepseekV3ForCausalLM"
IDS = [2, 30, 58]


def _config(**data: Any) -> DrafterConfig:
    return parse_drafter_config(Path("config.json"), json.dumps(data).encode())


def _nested(**inner: Any) -> DrafterConfig:
    return _config(eagle_config=inner)


def test_directory_and_file_are_read_alike(tmp_path: Path) -> None:
    raw = b'{"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 58]}}\r\n'
    (tmp_path / "config.json").write_bytes(raw)
    config = read_drafter_config(tmp_path)
    assert config == read_drafter_config(tmp_path / "config.json")
    assert (config.raw, config.text.encode(), config.sha256) == (raw, raw, hashlib.sha256(raw).hexdigest())


@pytest.mark.parametrize(
    ("config", "layout", "nested", "top"),
    [
        (_nested(eagle_aux_hidden_state_layer_ids=IDS), "nested", (2, 30, 58), None),
        (_config(eagle_aux_hidden_state_layer_ids=IDS), "top-level", None, (2, 30, 58)),
        (_config(eagle_aux_hidden_state_layer_ids=IDS, eagle_config=None), "top-level", None, (2, 30, 58)),
        (_config(eagle_config=[1]), "none", None, None),
        (_nested(eagle_aux_hidden_state_layer_ids=[2, True]), "none", None, None),
    ],
)
def test_ids_are_found_where_they_live(
    config: DrafterConfig, layout: str, nested: tuple[int, ...] | None, top: tuple[int, ...] | None
) -> None:
    assert (config.layout, config.nested_ids, config.top_level_ids) == (layout, nested, top)


def test_switch_and_count_are_read_with_their_defaults() -> None:
    assert (_config().use_aux_hidden_state, _config().num_aux_hidden_states) == (True, None)
    assert _nested(use_aux_hidden_state=False).use_aux_hidden_state is False
    assert _config(num_aux_hidden_states=4).num_aux_hidden_states == 4


@pytest.mark.parametrize(
    ("config", "detail"),
    [
        (_config(), "eagle_config is absent"),
        (_config(eagle_config=None), "eagle_config is null, no object"),
        (_config(eagle_config=[1, 2]), "eagle_config is [1, 2], no object"),
        (_nested(), "eagle_config.eagle_aux_hidden_state_layer_ids is absent"),
        (_nested(eagle_aux_hidden_state_layer_ids=None), "eagle_config.eagle_aux_hidden_state_layer_ids is null"),
        (_config(eagle_aux_hidden_state_layer_ids=IDS), "eagle_config is absent"),
    ],
)
def test_absent_ids_mean_the_default_and_the_reason_is_told(config: DrafterConfig, detail: str) -> None:
    read = ids_read_by(config, find_reading("sglang", "0.5.16"))
    assert (read.ids, read.off, read.fails, read.detail) == (None, False, False, detail)
    prediction = predict(config, "sglang", "0.5.16", DEEPSEEK, 61)
    assert prediction.states == (2, 30, 58)
    assert detail in prediction.note


@pytest.mark.parametrize("value", [False, None, 0])
def test_a_switch_that_is_off_feeds_postnorm_from_the_version_that_reads_it(value: object) -> None:
    config = _nested(eagle_aux_hidden_state_layer_ids=IDS, use_aux_hidden_state=value)
    assert predict(config, "sglang", "0.5.8", DEEPSEEK, 61).states == ("postnorm",)
    assert predict(config, "sglang", "0.5.7", DEEPSEEK, 61).states == (3, 31, 59)


@pytest.mark.parametrize("value", ["2,30,58", [2.5, 3], {"a": 1}, 3, False])
def test_ids_of_a_wrong_type_make_the_engine_fail(value: object) -> None:
    config = _nested(eagle_aux_hidden_state_layer_ids=value)
    assert predict(config, "sglang", "0.5.16", DEEPSEEK, 61).states is None


def test_an_engine_that_never_reads_ids_is_predicted_at_its_default() -> None:
    config = _nested(eagle_aux_hidden_state_layer_ids=[5, 6, 7])
    prediction = predict(config, "sglang", "0.4.7", "LlamaForCausalLM", 32)
    assert (prediction.ids, prediction.states) == (None, (2, 16, 29))
    assert "never reads" in prediction.note


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"{", "no JSON"),
        (b'{"a": "\xff"}', "no JSON in UTF-8"),
        (b"[1]", "list, not an object"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "key 'c' twice"),
        (b'{"a": ' + b"[" * 100_000, "no JSON"),
        (b"", "no JSON"),
    ],
)
def test_what_cannot_be_edited_safely_is_refused(tmp_path: Path, raw: bytes, words: str) -> None:
    (tmp_path / "config.json").write_bytes(raw)
    with pytest.raises(HsfError) as caught:
        read_drafter_config(tmp_path)
    assert (caught.value.code, caught.value.exit_code) == ("drafter-unreadable", 3)
    assert words in caught.value.message


def test_a_missing_path_is_a_usage_error_and_a_missing_config_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(HsfError) as missing:
        read_drafter_config(tmp_path / "nowhere")
    with pytest.raises(HsfError) as empty:
        read_drafter_config(tmp_path)
    assert (missing.value.code, empty.value.code) == ("not-found", "drafter-unreadable")
