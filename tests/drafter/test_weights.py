"""Every dialect gives the same drafter, and whatever cannot be evaluated faithfully is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hsforensics.drafter.evaluate import draft_choices
from hsforensics.drafter.weights import LoadedDrafter, load_drafter
from hsforensics.errors import HsfError
from hsforensics.models.target import Target, load_target
from tests.drafter.makers import CONFIG, DRAFT_VOCAB, make_spec, make_tensors, make_weights, write_drafter
from tests.world import HIDDEN, VOCAB, make_world, write_target

SPECULATORS = {
    "architectures": ["Eagle3DraftModel"],
    "speculators_model_type": "eagle3",
    "transformer_layer_config": {key: value for key, value in CONFIG.items() if key != "architectures"},
    "draft_vocab_size": DRAFT_VOCAB,
    "norm_before_residual": False,
    "norm_before_fc": False,
    "fc_norm": False,
    "target_hidden_size": None,
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    return load_target(write_target(make_world(), tmp_path_factory.mktemp("w") / "target"))


def load(path: Path, target: Target) -> LoadedDrafter:
    return load_drafter(path, target, torch.float32, torch.device("cpu"))


def proposals(loaded: LoadedDrafter) -> list[list[int]]:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, VOCAB, (30,), generator=generator)
    aux = torch.randn(30, loaded.weights.fc.shape[1], generator=generator)
    return [step.tolist() for step in draft_choices(loaded.weights, tokens, aux, 3, "own")]


@pytest.mark.parametrize(
    ("layer", "prefix", "config"),
    [
        ("layers.0", "", CONFIG),
        ("midlayer", "model.", CONFIG),
        ("layers.0", "model.", SPECULATORS),
        (
            "midlayer",
            "",
            CONFIG | {"rope_theta": None, "rope_parameters": {"rope_theta": 500.0, "rope_type": "default"}},
        ),
        ("midlayer", "", CONFIG | {"rope_scaling": {"type": "default", "mrope_section": [2, 3, 3]}}),
    ],
)
def test_a_dialect_changes_nothing(
    layer: str, prefix: str, config: dict[str, Any], target: Target, tmp_path: Path
) -> None:
    plain = load(write_drafter(tmp_path / "plain"), target)
    other = load(write_drafter(tmp_path / "other", config=config, layer=layer, prefix=prefix), target)
    assert proposals(plain) == proposals(other)
    assert len({choice for step in proposals(plain) for choice in step}) > 5


def test_the_files_hold_the_drafter_that_was_written(target: Target, tmp_path: Path) -> None:
    loaded = load(write_drafter(tmp_path / "d"), target)
    weights = make_weights(make_spec(), target.embedding())
    assert loaded.weights.spec == weights.spec
    assert torch.equal(loaded.weights.fc, weights.fc)
    assert torch.equal(loaded.weights.target_ids, 2 * torch.arange(DRAFT_VOCAB))
    assert (loaded.embedding_source, loaded.head_source, loaded.embedding_differs) == ("target", "drafter", None)


def test_old_names_of_the_norms_before_fc_are_known(target: Target, tmp_path: Path) -> None:
    tensors = make_tensors(make_spec(fc_norm=True))
    legacy = ("aux_norm_low", "aux_norm_mid", "aux_norm_high")
    renamed = {name: x for name, x in tensors.items() if "fc_norm" not in name}
    renamed |= {f"{old}.weight": tensors[f"fc_norm.{i}.weight"] for i, old in enumerate(legacy)}
    new, old = (load(write_drafter(tmp_path / str(i), x), target) for i, x in enumerate((tensors, renamed)))
    assert new.weights.spec.fc_norm
    assert proposals(new) == proposals(old)


def test_switches_are_read_at_the_top_and_inside_eagle_config(target: Target, tmp_path: Path) -> None:
    tensors = make_tensors(make_spec(input_norm=True))
    nested = CONFIG | {"eagle_config": {"norm_before_fc": True, "return_hidden_post_norm": True}}
    flat = CONFIG | {"norm_before_fc": True, "norm_output": True, "norm_before_residual": False}
    for i, config in enumerate((nested, flat)):
        spec = load(write_drafter(tmp_path / str(i), tensors, config), target).weights.spec
        assert (spec.input_norm, spec.norm_output, spec.norm_before_residual) == (True, True, False)


def test_without_a_head_of_its_own_the_targets_is_used(target: Target, tmp_path: Path) -> None:
    tensors = {name: x for name, x in make_tensors(make_spec()).items() if name not in ("lm_head.weight", "d2t")}
    loaded = load(write_drafter(tmp_path / "d", tensors, CONFIG | {"draft_vocab_size": None}), target)
    assert loaded.head_source == "target"
    assert torch.equal(loaded.weights.head, target.lm_head())
    assert loaded.weights.target_ids.tolist() == list(range(VOCAB))


@pytest.mark.parametrize(("rows", "share"), [(0, 0.0), (1, 1 / VOCAB), (VOCAB, 1.0)])
def test_an_own_embedding_is_measured_against_the_targets(
    rows: int, share: float, target: Target, tmp_path: Path
) -> None:
    mine = target.embedding().bfloat16()
    mine[:rows] += 1
    loaded = load(write_drafter(tmp_path / "d", make_tensors(make_spec()) | {"embed_tokens.weight": mine}), target)
    assert loaded.embedding_differs == share
    assert torch.equal(loaded.weights.embedding, target.embedding())


def test_a_drafter_of_another_width_needs_and_uses_its_own_embedding(target: Target, tmp_path: Path) -> None:
    spec = make_spec(hidden_size=32, head_dim=8)
    config = CONFIG | {"hidden_size": 32, "head_dim": 8, "target_hidden_size": HIDDEN}
    tensors = make_tensors(spec)
    with pytest.raises(HsfError, match=r"hold no 'embed_tokens\.weight'"):
        load(write_drafter(tmp_path / "without", tensors, config), target)
    own = torch.randn(VOCAB, 32)
    loaded = load(write_drafter(tmp_path / "with", tensors | {"embed_tokens.weight": own}, config), target)
    assert loaded.embedding_source == "drafter"
    assert loaded.weights.spec.channels == 3
    assert torch.equal(loaded.weights.embedding, own)


ONE = torch.ones(HIDDEN)
BAD_TENSORS: dict[str, tuple[dict[str, Tensor], str, str]] = {
    "two layers": ({"layers.1.hidden_norm.weight": ONE}, "drafter-unsupported", r"'layers\.1\.hidden.*more than one"),
    "mla": ({"layer.self_attn.kv_a_proj_with_mqa.weight": ONE}, "drafter-unsupported", r"kv_a_proj.*MLA"),
    "bias": ({"layer.self_attn.q_proj.bias": ONE}, "drafter-unsupported", r"q_proj\.bias.*biases"),
    "qk norm": ({"layer.self_attn.q_norm.weight": ONE}, "drafter-unsupported", r"q_norm.*normalises"),
    "quantised": ({"layer.mlp.up_proj.weight_scale": ONE}, "drafter-unsupported", r"weight_scale.*quantised"),
    "mixture": ({"layer.mlp.experts.0.up_proj.weight": ONE}, "drafter-unsupported", r"experts.*mixture"),
    "stranger": ({"surprise": ONE}, "drafter-unsupported", r"'surprise'"),
    "twins": ({"layers.0.hidden_norm.weight": ONE}, "drafter-unreadable", r"the same part"),
    "norm of a fourth channel": (
        {f"fc_norm.{i}.weight": ONE for i in range(4)}, "drafter-unsupported", r"fc_norm\.3.*3 channels"
    ),
    "norm of one channel": ({"fc_norm.0.weight": ONE}, "drafter-unreadable", r"hold no 'fc_norm\.1\.weight'"),
    "fc width": ({"fc.weight": torch.ones(HIDDEN, 3 * HIDDEN + 1)}, "drafter-unreadable", r"fc\.weight.*multiple.*48"),
    "fc shape": ({"fc.weight": torch.ones(3 * HIDDEN)}, "drafter-unreadable", r"fc\.weight.*two dimensions"),
    "nan": ({"norm.weight": torch.nan * ONE}, "drafter-unreadable", r"'norm\.weight' holds NaN"),
    "eagle-1": (
        {"layer.self_attn.q_proj.weight": torch.ones(64, HIDDEN)}, "drafter-unreadable", r"q_proj.*\[64, 48\].*96\]"
    ),
    "head rows": ({"lm_head.weight": torch.ones(40, HIDDEN)}, "drafter-unreadable", r"lm_head\.weight.*40.*41"),
    "embedding width": (
        {"embed_tokens.weight": torch.ones(VOCAB, 7)}, "drafter-unreadable", r"embed_tokens\.weight.*7.*48"
    ),
    "absolute d2t": ({"d2t": 2 + 2 * torch.arange(DRAFT_VOCAB)}, "drafter-unreadable", r"d2t.*2 to 122.*0 to 96"),
    "negative d2t": ({"d2t": torch.arange(DRAFT_VOCAB) - 1}, "drafter-unreadable", r"d2t.*-1 to"),
    "short d2t": ({"d2t": torch.zeros(40, dtype=torch.long)}, "drafter-unreadable", r"d2t.*\[40\].*\[41\]"),
    "float d2t": ({"d2t": torch.zeros(DRAFT_VOCAB)}, "drafter-unreadable", r"d2t.*float32"),
    "other t2d": ({"t2d": torch.ones(VOCAB, dtype=torch.bool)}, "drafter-unreadable", r"d2t.*t2d.*41 and 97"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TENSORS)
def test_a_tensor_that_does_not_belong_is_named(case: str, target: Target, tmp_path: Path) -> None:
    changes, code, message = BAD_TENSORS[case]
    with pytest.raises(HsfError, match=message) as caught:
        load(write_drafter(tmp_path / "d", make_tensors(make_spec()) | changes), target)
    assert caught.value.code == code


@pytest.mark.parametrize("name", sorted(make_tensors(make_spec()).keys() - {"lm_head.weight"}))
def test_a_missing_tensor_is_named(name: str, target: Target, tmp_path: Path) -> None:
    tensors = {key: x for key, x in make_tensors(make_spec()).items() if key != name}
    with pytest.raises(HsfError) as caught:
        load(write_drafter(tmp_path / "d", tensors), target)
    assert caught.value.code == "drafter-unreadable"
    assert f"'{name.replace('layer.', 'layers.0.')}'" in caught.value.message


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("name", ["fc.weight", "layer.mlp.up_proj.weight", "norm.weight", "embed_tokens.weight"])
def test_quantised_weights_without_scales_are_refused_by_name_and_dtype(
    name: str, dtype: torch.dtype, target: Target, tmp_path: Path
) -> None:
    tensors = make_tensors(make_spec()) | {"embed_tokens.weight": target.embedding()}
    stored = name.replace("layer.", "midlayer.")
    word = str(dtype).removeprefix("torch.")
    with pytest.raises(HsfError, match=rf"'{stored}' is {word}: quantised") as caught:
        load(write_drafter(tmp_path / "d", tensors | {name: tensors[name].to(dtype)}), target)
    assert caught.value.code == "drafter-unsupported"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_full_dtype_is_read(dtype: torch.dtype, target: Target, tmp_path: Path) -> None:
    tensors = {name: x if name == "d2t" else x.to(dtype) for name, x in make_tensors(make_spec()).items()}
    assert load(write_drafter(tmp_path / "d", tensors), target).weights.fc.dtype == torch.float32


def test_a_map_without_a_head_is_refused(target: Target, tmp_path: Path) -> None:
    tensors = {key: x for key, x in make_tensors(make_spec()).items() if key != "lm_head.weight"}
    with pytest.raises(HsfError, match=r"'d2t' without 'lm_head\.weight'"):
        load(write_drafter(tmp_path / "d", tensors), target)


BAD_CONFIGS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no width": ({"hidden_size": None}, "drafter-unreadable", "'hidden_size' must be a positive integer, got None"),
    "boolean": ({"intermediate_size": True}, "drafter-unreadable", "'intermediate_size'.*True"),
    "no object": ({"transformer_layer_config": 3}, "drafter-unreadable", "transformer_layer_config"),
    "layers": ({"num_hidden_layers": 2}, "drafter-unsupported", "'num_hidden_layers' is 2"),
    "activation": ({"hidden_act": "gelu"}, "drafter-unsupported", "'hidden_act' is 'gelu'"),
    "input norm": ({"norm_before_fc": True}, "drafter-unreadable", r"norm_before_fc.*'input_norm\.weight' is missing"),
    "fc norm": ({"fc_norm": True}, "drafter-unreadable", r"fc_norm.*'fc_norm\.0\.weight' is missing"),
    "rope kind": ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "drafter-unsupported", "'dynamic'"),
    "half rope": ({"partial_rotary_factor": 0.5}, "drafter-unsupported", "partial_rotary_factor 0.5"),
    "rope per layer": ({"rope_parameters": {"full": {"rope_theta": 1.0}}}, "drafter-unsupported", "rotary"),
    "rope part": ({"rope_scaling": {"rope_type": "llama3"}}, "drafter-unreadable", "rope scaling.*llama3"),
    "other target": ({"target_hidden_size": 36}, "usage", "width 36, the target's have 48"),
}


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_a_config_that_cannot_be_right_is_explained(case: str, target: Target, tmp_path: Path) -> None:
    changes, code, message = BAD_CONFIGS[case]
    with pytest.raises(HsfError, match=message) as caught:
        load(write_drafter(tmp_path / "d", config=CONFIG | changes), target)
    assert caught.value.code == code


def test_a_flag_must_not_deny_a_norm_that_is_there(target: Target, tmp_path: Path) -> None:
    tensors = make_tensors(make_spec(input_norm=True))
    with pytest.raises(HsfError, match=r"'norm_before_fc' is false, but tensor 'input_norm\.weight' is there"):
        load(write_drafter(tmp_path / "d", tensors, CONFIG | {"norm_before_fc": False}), target)


def test_what_is_not_there_is_said(target: Target, tmp_path: Path) -> None:
    with pytest.raises(HsfError) as caught:
        load(tmp_path / "nowhere", target)
    assert caught.value.code == "not-found"
    (tmp_path / "empty").mkdir()
    with pytest.raises(HsfError) as caught:
        load(tmp_path / "empty", target)
    assert caught.value.code == "drafter-unreadable"


def test_scaling_without_transformers_names_the_package(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    config = CONFIG | {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    with pytest.raises(HsfError, match="transformers") as caught:
        load(write_drafter(tmp_path / "d", config=config), target)
    assert caught.value.code == "dependency-missing"
