"""A config with junk in it is refused by the key: no value of any key ends in a traceback or in a silent default."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsforensics.drafter.rope import inverse_frequencies
from hsforensics.drafter.spec import expected_shapes, read_spec
from hsforensics.errors import HsfError
from hsforensics.models.checkpoint import read_json
from tests.drafter.makers import CONFIG, LLAMA3, make_spec, make_tensors
from tests.world import VOCAB

WHERE = Path("config.json")
SHAPES = {name: tuple(x.shape) for name, x in make_tensors(make_spec()).items()}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
FULL: dict[str, Any] = CONFIG | {
    "rope_scaling": LLAMA3,
    "rope_parameters": {"rope_theta": 500.0},
    "partial_rotary_factor": 1.0,
    "hidden_act": "silu",
    "target_hidden_size": CONFIG["hidden_size"],
    "eagle_config": {"norm_before_fc": False, "norm_output": True},
    "norm_before_residual": False,
    "norm_before_fc": False,
    "fc_norm": False,
    "norm_output": False,
    "return_hidden_post_norm": None,
}
"""A healthy config that holds every key that is read."""

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(
        [0, -1, 10**400, 0.0, -1.5, float("nan"), float("inf"), 1e308, "", "abc", "0", [], [1], {}, {"a": 1}]
    ),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def read(config: dict[str, Any]) -> None:
    """What loading a drafter does with its config, and that nothing but numbers comes of it."""
    spec = read_spec(config, SHAPES, VOCAB, WHERE)
    expected_shapes(spec)
    frequencies, factor = inverse_frequencies(spec.rope, spec.head_dim, WHERE)
    assert frequencies.shape == (spec.head_dim // 2,)
    assert bool(frequencies.isfinite().all())
    assert 0 < factor < torch.inf
    assert 0 < spec.norm_eps < torch.inf


def refusal(config: dict[str, Any]) -> HsfError | None:
    """The refusal of a config; ``None`` if it is read. Any other exception escapes."""
    try:
        read(config)
    except HsfError as error:
        return error
    return None


def test_the_healthy_config_is_read() -> None:
    read(FULL)
    read(FULL | {"rope_scaling": YARN})


@settings(max_examples=150, deadline=None)
@given(key=st.sampled_from(sorted(FULL)), value=JUNK)
def test_junk_in_any_key_is_read_or_refused_and_never_a_traceback(key: str, value: object) -> None:
    error = refusal(FULL | {key: value})
    assert error is None or (error.code in ("drafter-unreadable", "drafter-unsupported") and len(error.message) < 400)


@settings(max_examples=100, deadline=None)
@given(scaling=st.sampled_from([LLAMA3, YARN, {"rope_type": "linear", "factor": 2.0}]), data=st.data())
def test_junk_in_any_parameter_of_a_scaling_is_read_or_refused(scaling: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(
        st.sampled_from([*sorted(scaling), "attention_factor", "beta_fast", "mscale", "rope_theta", "truncate"])
    )
    error = refusal(FULL | {"rope_scaling": scaling | {key: data.draw(JUNK)}, "rope_parameters": None})
    assert error is None or (error.code in ("drafter-unreadable", "drafter-unsupported") and len(error.message) < 400)


JUNK_BY_KEY = [
    ("rms_norm_eps", "abc"),
    ("rms_norm_eps", 0),
    ("rms_norm_eps", -1),
    ("rms_norm_eps", float("nan")),
    ("rms_norm_eps", [1e-5]),
    ("rope_theta", "x"),
    ("rope_theta", 0),
    ("rope_theta", -10000.0),
    ("rope_theta", 10**400),
    ("rope_scaling", [1]),
    ("rope_scaling", "yarn"),
    ("rope_parameters", [1]),
    ("max_position_embeddings", "long"),
    ("max_position_embeddings", 1.5),
    ("num_attention_heads", 2.5),
    ("num_attention_heads", "4"),
    ("num_key_value_heads", 3),
    ("num_key_value_heads", [2]),
    ("head_dim", 15),
    ("head_dim", -16),
    ("eagle_config", [1]),
    ("norm_output", "false"),
    ("norm_before_residual", 1),
    ("fc_norm", "no"),
]


@pytest.mark.parametrize(("key", "value"), JUNK_BY_KEY)
def test_a_value_that_cannot_be_right_is_refused_by_its_key(key: str, value: object) -> None:
    config = copy.deepcopy(FULL) | {key: value}
    with pytest.raises(HsfError, match=f"'{key}'") as caught:
        read(config)
    assert caught.value.code == "drafter-unreadable"


@pytest.mark.parametrize("value", ["x", {"a": 1}, float("nan"), 1e300, [1, "x"]])
@pytest.mark.parametrize("key", ["factor", "original_max_position_embeddings"])
def test_a_wrong_parameter_of_a_scaling_is_refused(key: str, value: object) -> None:
    with pytest.raises(HsfError) as caught:
        read(FULL | {"rope_scaling": YARN | {key: value}})
    assert caught.value.code in ("drafter-unreadable", "drafter-unsupported")


def test_heads_that_do_not_divide_the_width_need_a_head_dim() -> None:
    with pytest.raises(HsfError, match="'num_attention_heads' must be a divisor of hidden_size"):
        read(FULL | {"num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": None})


@pytest.mark.parametrize("depth", [900, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_json_nested_too_deep_is_refused_like_any_other_junk(
    depth: int, opening: str, closing: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"x": ' + opening * depth + "1" + closing * depth + "}")
    try:
        json.loads(file.read_text())
    except RecursionError:
        with pytest.raises(HsfError, match="not readable as JSON") as caught:
            read_json(file, "drafter-unreadable")
        assert caught.value.code == "drafter-unreadable"
    else:
        assert list(read_json(file, "drafter-unreadable")) == ["x"]
