"""vLLM: ids are state numbers, but which key is read depends on the version and on which of two runners is taken."""

from __future__ import annotations

from typing import Final

from hsforensics.rules.rows import (
    AUX_COUNT,
    AUX_SWITCH,
    DFLASH_IDS,
    DSPARK_IDS,
    NESTED_IDS,
    TARGET_IDS,
    TOP_LEVEL_IDS,
    Caveat,
    ConfigReading,
    Engine,
    IdRule,
    ModelClass,
    RunnerChoice,
)

_V1, _V2 = "vllm-v1", "vllm-v2"

ENGINES: Final = (
    Engine("vllm", "vLLM", "0.33.0", "vllm"),
    Engine(_V1, "vLLM's V1 runner", "0.33.0", "vllm"),
    Engine(_V2, "vLLM's V2 runner", "0.33.0", "vllm"),
)

_DEEPSEEK = (
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV32ForCausalLM",
    "GlmMoeDsaForCausalLM",
    "KimiK25ForConditionalGeneration",
)

MODEL_CLASSES: Final = (
    *(ModelClass("vllm", name, "deepseek", "0.8.5") for name in _DEEPSEEK),
    ModelClass("vllm", "*", "any", "0.8.5"),
    ModelClass("vllm", "*", "any-dflash", "0.20.2", method="dflash"),
    ModelClass("vllm", "*", "any-dspark", "0.28.0", method="dspark"),
)

_READ: Final = "read from source"
_GATHER = Caveat("with a sequence-parallel MoE, this version serves only a part of the rows (mended in 0.28)")

ID_RULES: Final = (
    IdRule("vllm", "any", ">=0.8.5,<0.11.1", "ignores_ids", False, "v1/worker/gpu_model_runner.py", _READ),
    IdRule("vllm", "any", ">=0.11.1,<0.18.1", "as_is", False, "model_executor/models/llama.py", _READ),
    IdRule(
        *("vllm", "any", ">=0.18.1", "as_is", True, "EagleModelMixin._maybe_add_hidden_state", _READ),
        last_state="captured",
    ),
    IdRule("vllm", "deepseek", ">=0.8.5,<0.11.1", "ignores_ids", False, "v1/worker/gpu_model_runner.py", _READ),
    IdRule(
        *("vllm", "deepseek", ">=0.11.1,<0.28", "as_is", False, "model_executor/models/deepseek_v2.py", _READ),
        caveats=(_GATHER,),
    ),
    IdRule(
        *("vllm", "deepseek", ">=0.28", "as_is", False, "model_executor/models/deepseek_v2.py", _READ),
        last_state="captured",
    ),
    IdRule(
        *("vllm", "any-dflash", ">=0.20.2,<0.22", "as_is", False, "v1/worker/gpu_model_runner.py", _READ),
        default="refused",
        last_state="captured",
        method="dflash",
    ),
    IdRule(
        *("vllm", "any-dflash", ">=0.22", "plus_one", False, "spec_decode/eagle/eagle3_utils.py", _READ),
        default="refused",
        last_state="captured",
        method="dflash",
    ),
    IdRule(
        *("vllm", "any-dspark", ">=0.28", "plus_one", False, "spec_decode/eagle/eagle3_utils.py", _READ),
        default="refused",
        last_state="captured",
        method="dspark",
    ),
)

_NEVER = Caveat("this version never reads layer ids and always captures its default layers")
_RAW_NESTED = Caveat(
    "nested ids of SpecForge and ModelOpt count layer outputs, one less than this engine takes them for "
    "(vllm#43671): write the top-level key, which it reads first",
    by_hand=True,
)
_NESTED_UNREAD = Caveat(
    "this runner never reads eagle_config.eagle_aux_hidden_state_layer_ids: without the top-level key it serves its "
    "default layers and says nothing (vllm#50170)",
    by_hand=True,
)
_V1_FILE, _V2_FILE = "v1/worker/gpu_model_runner.py", "v1/worker/gpu/spec_decode/eagle/eagle3_utils.py"

CONFIG_READINGS: Final = (
    ConfigReading(_V1, ">=0.8.5,<0.11.1", None, None, None, 3, _V1_FILE, (_NEVER,)),
    ConfigReading(_V1, ">=0.11.1,<0.22", TOP_LEVEL_IDS, AUX_SWITCH, None, 3, _V1_FILE, lenient=True),
    ConfigReading(
        *(_V1, ">=0.22", TOP_LEVEL_IDS, AUX_SWITCH, AUX_COUNT, None, _V1_FILE, (_RAW_NESTED,)),
        fallback_keys=(NESTED_IDS,),
        lenient=True,
    ),
    ConfigReading(
        _V2, ">=0.17,<0.28", TOP_LEVEL_IDS, AUX_SWITCH, AUX_COUNT, None, _V2_FILE, (_NESTED_UNREAD,), lenient=True
    ),
    ConfigReading(
        *(_V2, ">=0.28", TOP_LEVEL_IDS, AUX_SWITCH, AUX_COUNT, None, _V2_FILE, (_NESTED_UNREAD,)),
        fallback_keys=("eagle_config.layer_ids",),
        lenient=True,
    ),
    ConfigReading(*(_V1, ">=0.20.2", DFLASH_IDS, None, None, None, _V1_FILE), method="dflash"),
    ConfigReading(
        *(_V2, ">=0.20.2", DFLASH_IDS, None, None, None, _V2_FILE),
        method="dflash",
        fallback_keys=("dflash_config.layer_ids",),
    ),
    ConfigReading(
        *(_V2, ">=0.28", DSPARK_IDS, None, None, None, _V2_FILE), method="dspark", fallback_keys=(TARGET_IDS,)
    ),
)

_SOME_V2 = (
    "Qwen3ForCausalLM",
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "DeepseekV2ForCausalLM",
    "Qwen2MoeForCausalLM",
    "GraniteMoeForCausalLM",
)
_EITHER = Caveat(
    "mixture-of-experts and hybrid classes may still take the V1 runner in this version; both read the top-level key"
)
_SWITCH = "VLLM_USE_V2_MODEL_RUNNER=0 takes the V1 runner"

RUNNERS: Final = (
    RunnerChoice("vllm", ">=0.22,<0.24", _SOME_V2[:1], _V2, _SWITCH),
    RunnerChoice("vllm", ">=0.24,<0.26", _SOME_V2, _V2, _SWITCH),
    RunnerChoice("vllm", ">=0.26,<0.29", None, _V2, _SWITCH, (_EITHER,)),
    RunnerChoice("vllm", ">=0.29", None, _V2, _SWITCH),
    RunnerChoice("vllm", ">=0.8.5", None, _V1, "the only runner, or the one for all other classes"),
)
"""The first row that covers a version and a class decides."""
