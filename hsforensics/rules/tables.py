"""What is known of engines, as data: model classes, id rules, and which config keys are read.

Three tables, joined by engine, version and family. A new fact is a new row. Version ranges are half open and follow
PEP 440, so a pre-release of a version where something changed belongs to no row: nobody has looked at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

NESTED_IDS: Final = "eagle_config.eagle_aux_hidden_state_layer_ids"
TOP_LEVEL_IDS: Final = "eagle_aux_hidden_state_layer_ids"
AUX_SWITCH: Final = "eagle_config.use_aux_hidden_state"
AUX_COUNT: Final = "num_aux_hidden_states"


@dataclass(frozen=True)
class Engine:
    """An engine: its name in ``NAME==VERSION``, its name in prose, and the newest version that was looked at."""

    name: str
    title: str
    newest: str


@dataclass(frozen=True)
class ModelClass:
    """A target's model class in an engine.

    Attributes:
        family: Classes that share their rows of ``ID_RULES``.
        since: First version in which the class takes ids (or captures a default).
        delegates_to: For a wrapper, the inner class whose rule applies.
    """

    engine: str
    name: str
    family: str
    since: str
    delegates_to: str | None = None


@dataclass(frozen=True)
class Caveat:
    """A known trap of some versions; ``harmless_at_default`` when it does not matter to the default wiring."""

    text: str
    harmless_at_default: bool = False


@dataclass(frozen=True)
class IdRule:
    """What ids mean to one family in a range of versions.

    Attributes:
        versions: PEP 440 specifiers, half open.
        rule: A key of ``hsforensics.rules.functions.RULES``.
        default: A key of ``hsforensics.rules.functions.DEFAULTS``.
        state_zero: Whether state 0, the embedding, can be captured. Where not, asking for it crashes the engine.
        last_state: Whether state L can be captured. Where not, asking for it captures nothing.
        missing: What happens when fewer states arrive than ids were given: the rest is served, or the engine fails.
        source: Pull requests and files.
        verified: How it is known: executed on stubs, read from source, or seen live.
    """

    engine: str
    family: str
    versions: str
    rule: str
    state_zero: bool
    source: str
    verified: str
    default: str = "canonical"
    last_state: bool = False
    missing: Literal["dropped", "fails"] = "dropped"
    caveats: tuple[Caveat, ...] = ()


@dataclass(frozen=True)
class ConfigReading:
    """Which keys of a drafter's config an engine reads, in a range of versions; dotted keys, ``None`` = none.

    Attributes:
        ids_key: Where it looks for layer ids.
        switch_key: The switch that turns aux states off altogether.
        count_key: The number of aux states that sizes ``fc``, read before the length of the ids.
        slots: The only number of aux states it can serve, or ``None`` for any.
    """

    engine: str
    versions: str
    ids_key: str | None
    switch_key: str | None
    count_key: str | None
    slots: int | None
    source: str
    caveats: tuple[Caveat, ...] = ()


ENGINES: Final = {engine.name: engine for engine in (Engine("sglang", "SGLang", "0.5.23"),)}

# Mistral, Phi3, InternLM3, Llama4 and the others of the family inherit the setter from LlamaForCausalLM; V3, V32,
# GlmMoeDsa and MistralLarge3 inherit it from DeepseekV2ForCausalLM.
MODEL_CLASSES: Final = (
    ModelClass("sglang", "LlamaForCausalLM", "llama", "0.4.5"),
    ModelClass("sglang", "MistralForCausalLM", "llama", "0.4.5"),
    ModelClass("sglang", "Phi3ForCausalLM", "llama", "0.4.5"),
    ModelClass("sglang", "InternLM3ForCausalLM", "llama", "0.4.5"),
    ModelClass("sglang", "Llama4ForCausalLM", "llama", "0.4.9"),
    ModelClass("sglang", "Llama4ForConditionalGeneration", "llama", "0.4.9", "Llama4ForCausalLM"),
    ModelClass("sglang", "TeleFLMForCausalLM", "llama", "0.5.6"),
    ModelClass("sglang", "Ministral3ForCausalLM", "llama", "0.5.7"),
    ModelClass("sglang", "IQuestCoderForCausalLM", "llama", "0.5.8"),
    ModelClass("sglang", "Qwen2ForCausalLM", "qwen", "0.5.2"),
    ModelClass("sglang", "Qwen3ForCausalLM", "qwen", "0.4.9"),
    ModelClass("sglang", "DeepseekV2ForCausalLM", "deepseek", "0.5.4.post3"),
    ModelClass("sglang", "DeepseekV3ForCausalLM", "deepseek", "0.5.4.post3"),
    ModelClass("sglang", "DeepseekV32ForCausalLM", "deepseek", "0.5.4.post3"),
    ModelClass("sglang", "MistralLarge3ForCausalLM", "deepseek", "0.5.7"),
    ModelClass("sglang", "GlmMoeDsaForCausalLM", "deepseek", "0.5.9"),
    ModelClass("sglang", "KimiK25ForConditionalGeneration", "deepseek", "0.5.10", "DeepseekV3ForCausalLM"),
    ModelClass("sglang", "Glm4MoeLiteForCausalLM", "glm4-moe-lite", "0.5.13"),
)

_EXECUTED = "rule executed on stubs; capture positions read from source"
_PARTIAL_SUMS = Caveat(
    "with tensor parallelism and fused all-reduce, this version captures each rank's partial sum instead of the state"
)

ID_RULES: Final = (
    IdRule("sglang", "llama", ">=0.4.5,<0.4.9", "ignores_ids", False, "models/llama.py", _EXECUTED),
    IdRule("sglang", "llama", ">=0.4.9,<0.5.22", "plus_one", False, "models/llama.py", _EXECUTED),
    IdRule("sglang", "llama", ">=0.5.22", "plus_one", True, "models/llama.py", _EXECUTED),
    IdRule("sglang", "qwen", ">=0.4.9", "plus_one", True, "models/qwen2.py, models/qwen3.py", _EXECUTED),
    IdRule(
        *("sglang", "deepseek", ">=0.5.4.post3,<0.5.13", "plus_one", False, "models/deepseek_v2.py", _EXECUTED),
        caveats=(_PARTIAL_SUMS,),
    ),
    IdRule(
        *("sglang", "deepseek", ">=0.5.13,<0.5.14", "plus_one_if_first_is_one", False, "sglang#25454", _EXECUTED),
        caveats=(_PARTIAL_SUMS,),
    ),
    IdRule(
        *("sglang", "deepseek", ">=0.5.14,<0.5.17", "plus_one_if_first_is_one", True),
        *("sglang#25454, sglang#28343", _EXECUTED),
    ),
    IdRule(
        *("sglang", "deepseek", ">=0.5.17", "plus_one_if_first_is_one", True),
        *("sglang#25454, layers/aux_hidden_states.py", _EXECUTED),
        missing="fails",
    ),
    IdRule(
        *("sglang", "glm4-moe-lite", ">=0.5.13,<0.5.21", "plus_one_if_first_is_one", False),
        *("models/glm4_moe_lite.py", _EXECUTED),
        caveats=(_PARTIAL_SUMS,),
    ),
    IdRule(
        *("sglang", "glm4-moe-lite", ">=0.5.21", "plus_one_if_first_is_one", True),
        *("models/glm4_moe_lite.py", _EXECUTED),
    ),
)

_IDS_NEVER_READ = Caveat("this version never reads layer ids and always captures its default layers")
_GRAPHS_IGNORE_IDS = Caveat(
    "with CUDA graphs, decode and verify steps of this version capture the default layers whatever the ids say "
    "(sglang#22836 mends it in 0.5.11); only prefill follows the config",
    harmless_at_default=True,
)

CONFIG_READINGS: Final = (
    ConfigReading(
        *("sglang", ">=0.4.5,<0.4.9", None, None, None, 3, "model_executor/model_runner.py"),
        caveats=(_IDS_NEVER_READ,),
    ),
    ConfigReading(
        *("sglang", ">=0.4.9,<0.5.8", NESTED_IDS, None, None, 3, "model_executor/model_runner.py"),
        caveats=(_GRAPHS_IGNORE_IDS,),
    ),
    ConfigReading(
        *("sglang", ">=0.5.8,<0.5.11", NESTED_IDS, AUX_SWITCH, None, 3, "model_executor/model_runner.py"),
        caveats=(_GRAPHS_IGNORE_IDS,),
    ),
    ConfigReading("sglang", ">=0.5.11,<0.5.12", NESTED_IDS, AUX_SWITCH, None, 3, "model_executor/model_runner.py"),
    ConfigReading(
        *("sglang", ">=0.5.12", NESTED_IDS, AUX_SWITCH, AUX_COUNT, None),
        "model_executor/model_runner.py, from 0.5.16 model_runner_components/spec_aux_hidden_state.py",
    ),
)
