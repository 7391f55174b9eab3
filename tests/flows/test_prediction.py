"""What compare predicts from a drafter's config: by the tables, by the engine's own code, for every kind of drafter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hsforensics.errors import HsfError
from hsforensics.flows.prediction import PredictionWish, predict_serving
from hsforensics.results import Prediction, Provenance
from hsforensics.states import Finding
from tests.incident import KIMI, TRAINED, write_config
from tests.rules.introspect.engines import LLAMA, make_tree

LLAMA_CLASS = "LlamaForCausalLM"


def _predict(
    drafter: Path, architecture: str = LLAMA_CLASS, **wish: Any
) -> tuple[Prediction | None, dict[str, Finding]]:
    origin = Provenance("0", (), "", target_wrapper=architecture, target_inner=architecture, layers=61)
    predicted, found = predict_serving(drafter, origin, TRAINED, None, PredictionWish(**wish))
    return predicted, {item.code: item for item in found}


def test_the_engines_own_code_decides_and_its_disagreement_is_told(tmp_path: Path) -> None:
    write_config(tmp_path, eagle_config={"eagle_aux_hidden_state_layer_ids": [3, 31, 59]})
    raw = LLAMA.replace("[val + 1 for val in layer_ids]", "list(layer_ids)")
    place = str(make_tree(tmp_path / "wheel", llama=raw))
    by_tables, _ = _predict(tmp_path, engine="sglang==0.5.99")
    by_code, found = _predict(tmp_path, engine="sglang==0.5.99", place=place)
    assert (by_tables and by_tables.states, by_code and by_code.states) == ((4, 32, 60), TRAINED)
    assert {"config-serves-trained", "rule-introspected"} <= found.keys()


def test_code_of_another_version_is_a_usage_error_and_not_a_silent_no_prediction(tmp_path: Path) -> None:
    write_config(tmp_path)
    with pytest.raises(HsfError) as caught:
        _predict(tmp_path, engine="sglang==0.5.16", place=str(make_tree(tmp_path / "wheel")))
    assert caught.value.code == "usage"


def test_a_dflash_config_is_read_as_one(tmp_path: Path) -> None:
    write_config(tmp_path, eagle_config=..., dflash_config={"target_layer_ids": [2, 30, 58]})
    predicted, _ = _predict(tmp_path, KIMI, engine="sglang==0.5.16")
    assert predicted is not None
    assert predicted.states == TRAINED


def test_keys_that_fight_are_told_with_the_prediction(tmp_path: Path) -> None:
    nested = {"eagle_aux_hidden_state_layer_ids": [2, 30, 58]}
    write_config(tmp_path, eagle_config=nested, eagle_aux_hidden_state_layer_ids=[2, 30, 58])
    _, found = _predict(tmp_path, engine="sglang==0.5.16")
    assert found["keys-conflict"].severity == "warning"
    assert "serves [3, 31, 59]" in found["keys-conflict"].message


@pytest.mark.parametrize(("version", "told"), [("0.5.23", False), ("0.5.99", True), ("0.6.0.dev1", True)])
def test_a_version_that_nobody_has_looked_at_is_told_to_be_one(tmp_path: Path, version: str, told: bool) -> None:
    write_config(tmp_path, eagle_config={"eagle_aux_hidden_state_layer_ids": [2, 30, 58]})
    _, found = _predict(tmp_path, engine=f"sglang=={version}")
    assert ("rule-caveat" in found and "newest version looked at" in found["rule-caveat"].message) == told
