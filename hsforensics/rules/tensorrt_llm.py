"""TensorRT-LLM's PyTorch backend: ids count layer outputs, -1 is postnorm, and they are a launch argument."""

from __future__ import annotations

from typing import Final

from hsforensics.rules.rows import Caveat, ConfigReading, Engine, IdRule, ModelClass

_NAME = "tensorrt-llm"

ENGINES: Final = (Engine(_NAME, "TensorRT-LLM", None, _NAME),)

MODEL_CLASSES: Final = (ModelClass(_NAME, "*", "any", "0.20"),)

ID_RULES: Final = (
    IdRule(
        *(_NAME, "any", ">=0.20", "plus_one_minus_one_is_postnorm", False),
        *("_torch/speculative/eagle3.py at f933a608 and 001e6700", "read from source"),
        last_state="captured",
        caveats=(Caveat("five layers or less have no default: the engine refuses to start without ids"),),
    ),
)

_ELSEWHERE = Caveat(
    "this engine reads no layer ids from the drafter's config: pass eagle3_layers_to_capture to it; releases were not "
    "told apart"
)

CONFIG_READINGS: Final = (
    ConfigReading(
        *(_NAME, ">=0.20", None, None, None, None, "llm_args.py, modeling_speculative.py at 00679c66"),
        caveats=(_ELSEWHERE,),
        argument="eagle3_layers_to_capture",
    ),
)
