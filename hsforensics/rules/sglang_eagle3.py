"""SGLang's ``set_eagle3_layers_to_capture``: which classes have it, and what each version makes of the ids.

The rules were executed on stubs for every release (``data/sglang_scan.json``, made by ``tools/scan_sglang.py``, and a
test compares); where a capture happens, so whether state 0 and state L can be had, was read from the source.
"""

from __future__ import annotations

from typing import Any, Final

from hsforensics.rules.rows import Caveat, IdRule, ModelClass


def _classes(family: str, names: dict[str, str], inner: str | None = None) -> tuple[ModelClass, ...]:
    """Rows of classes of one family: name -> first version."""
    return tuple(ModelClass("sglang", name, family, since, inner) for name, since in names.items())


_LLAMA = {
    "LlamaForCausalLM": "0.4.5",
    "MistralForCausalLM": "0.4.5",
    "Phi3ForCausalLM": "0.4.5",
    "InternLM3ForCausalLM": "0.4.5",
    "Llama4ForCausalLM": "0.4.9",
    "TeleFLMForCausalLM": "0.5.5.post3",
    "Ministral3ForCausalLM": "0.5.6.post1",
    "IQuestCoderForCausalLM": "0.5.8",
}
_DEEPSEEK = {
    "DeepseekV2ForCausalLM": "0.5.4.post2",
    "DeepseekV3ForCausalLM": "0.5.4.post2",
    "DeepseekV32ForCausalLM": "0.5.4.post2",
    "MistralLarge3ForCausalLM": "0.5.6.post1",
    "GlmMoeDsaForCausalLM": "0.5.9",
}
_BAILING = {
    "BailingMoEForCausalLM": "0.5.9",
    "BailingMoeForCausalLM": "0.5.9",
    "BailingMoeV2ForCausalLM": "0.5.9",
    "SarvamMoEForCausalLM": "0.5.10",
}
_QWEN35_WRAPPERS = {
    "Qwen3_5ForConditionalGeneration": "0.5.11",
    "Qwen3_5MoeForConditionalGeneration": "0.5.11",
    "InternS2PreviewForConditionalGeneration": "0.5.12",
    "InternS2MobiusForConditionalGeneration": "0.5.18",
    "Qwen4ExpForConditionalGeneration": "0.5.20",
}
_GEMMA4 = {"Gemma4ForCausalLM": "0.5.12", "Gemma4ForConditionalGeneration": "0.5.12"}

MODEL_CLASSES: Final = (
    *_classes("llama", _LLAMA),
    *_classes("llama", {"Llama4ForConditionalGeneration": "0.4.9"}, "Llama4ForCausalLM"),
    *_classes("qwen", {"Qwen3ForCausalLM": "0.4.9", "Qwen2ForCausalLM": "0.5.2"}),
    *_classes("qwen-moe", {"Qwen3MoeForCausalLM": "0.4.9", "Qwen2MoeForCausalLM": "0.5.2"}),
    *_classes("qwen-flags", {"Qwen3NextForCausalLM": "0.5.9", "MellumForCausalLM": "0.5.16"}),
    *_classes("qwen-flags", {"Qwen3_5ForCausalLM": "0.5.22", "Qwen3_5MoeForCausalLM": "0.5.22"}),
    *_classes("qwen-vl", {"Qwen2_5_VLForConditionalGeneration": "0.5.2", "Qwen3VLForConditionalGeneration": "0.5.11"}),
    *_classes("qwen-vl", {"Cosmos3ForConditionalGeneration": "0.5.20"}),
    *_classes("qwen-vl-moe", {"Qwen3VLMoeForConditionalGeneration": "0.5.11"}),
    *_classes("qwen-vl-moe", {"InternS1ProForConditionalGeneration": "0.5.11"}),
    *_classes("qwen3.5-vl", _QWEN35_WRAPPERS),
    ModelClass("sglang", "Glm4vForConditionalGeneration", "glm4v", "0.5.2", until="0.5.4.post2"),
    ModelClass("sglang", "Glm4vMoeForConditionalGeneration", "glm4v", "0.5.2", until="0.5.4.post2"),
    *_classes("deepseek", _DEEPSEEK),
    *_classes("deepseek", {"KimiK25ForConditionalGeneration": "0.5.10"}, "DeepseekV3ForCausalLM"),
    *_classes("glm4-moe-lite", {"Glm4MoeLiteForCausalLM": "0.5.8"}),
    *_classes("glm4-moe", {"Glm4MoeForCausalLM": "0.5.5"}),
    *_classes("glm5-next", {"Glm5NextForConditionalGeneration": "0.5.20"}),
    *_classes("gpt-oss", {"GptOssForCausalLM": "0.5.1"}),
    *_classes("minimax-m2", {"MiniMaxM2ForCausalLM": "0.5.5.post1"}),
    *_classes("minimax-m3", {"MiniMaxM3SparseForCausalLM": "0.5.16"}),
    *_classes("minimax-m3-vl", {"MiniMaxM3SparseForConditionalGeneration": "0.5.18"}),
    *_classes("bailing", _BAILING),
    *_classes("exaone-moe", {"ExaoneMoEForCausalLM": "0.5.9", "ExaoneMoeForCausalLM": "0.5.22"}),
    *_classes("apertus", {"ApertusForCausalLM": "0.5.3"}),
    *_classes("longcat", {"LongcatFlashForCausalLM": "0.5.6"}),
    *_classes("gemma4", _GEMMA4),
    *_classes("gemma4", {"Gemma4UnifiedForConditionalGeneration": "0.5.13"}),
    *_classes("gemma3", {"Gemma3ForCausalLM": "0.5.12"}),
    *_classes("gemma3", {"Gemma3ForConditionalGeneration": "0.5.12"}, "Gemma3ForCausalLM"),
    *_classes("mindspore", {"MindSporeForCausalLM": "0.5.10"}),
)

_PARTIAL_SUMS = Caveat(
    "with tensor parallelism and fused all-reduce, this version hands on each rank's partial sum instead of the state "
    "(seen live for GptOss and GLM-4 MoE); capture --tp 2 --every-rank measures it, and SGLang's "
    "--enforce-disable-flashinfer-allreduce-fusion avoids it"
)
_DEEPSTACK = Caveat(
    "on image tokens the state is taken before the vision features of the layer below are added, unlike transformers"
)
_NO_GATHER = Caveat("with data-parallel attention or an all-to-all MoE, only some layers' rows are gathered")
_TWO_BATCHES = Caveat("with two-batch overlap, layers from the first sparse one on are not captured")
_FIRST_ID = Caveat(
    "the order of the list matters: a list that starts with 1 is shifted, any other is not", by_hand=True
)
_DEFAULT_SHIFTED = Caveat(
    "without ids this wrapper serves its default one layer deeper than all other classes do", by_hand=True
)


def _rule(family: str, versions: str, rule: str, zero: bool, source: str, *caveats: Caveat, **more: Any) -> IdRule:
    return IdRule("sglang", family, versions, rule, zero, source, "executed on stubs", caveats=caveats, **more)


_DS, _COMMUNICATOR = "models/deepseek_v2.py", "sglang#25454, sglang#28343, layers/communicator.py"
_PACKER = "sglang#25454, layers/aux_hidden_states.py"
_LITE = "models/glm4_moe_lite.py"
_GEMMA3, _GEMMA4_FILE = "models/gemma3_causal.py", "models/gemma4_causal.py"

ID_RULES: Final = (
    _rule("llama", ">=0.4.5,<0.4.9", "ignores_ids", False, "models/llama.py"),
    _rule("llama", ">=0.4.9,<0.5.22", "plus_one", False, "models/llama.py"),
    _rule("llama", ">=0.5.22", "plus_one", True, "models/llama.py"),
    _rule("qwen", ">=0.4.9", "plus_one", True, "models/qwen2.py, models/qwen3.py"),
    _rule("qwen-moe", ">=0.4.9,<0.5.4.post2", "plus_one", True, "models/qwen2_moe.py, models/qwen3_moe.py"),
    _rule("qwen-moe", ">=0.5.4.post2", "plus_one", True, "models/qwen2_moe.py", last_state="crashes"),
    _rule("qwen-flags", ">=0.5.9", "plus_one", True, "models/qwen3_next.py, qwen3_5_text.py", last_state="crashes"),
    _rule("qwen-vl", ">=0.5.2", "plus_one", True, "models/qwen2_5_vl.py, models/qwen3_vl.py", _DEEPSTACK),
    _rule("qwen-vl-moe", ">=0.5.11,<0.5.22", "plus_one", True, "models/qwen3_vl_moe.py", _DEEPSTACK),
    _rule("qwen-vl-moe", ">=0.5.22", "plus_one", True, "models/qwen3_vl_moe.py", _DEEPSTACK, last_state="crashes"),
    _rule("qwen3.5-vl", ">=0.5.11,<0.5.22", "captures_nothing", True, "models/qwen3_vl.py", default="none"),
    _rule("qwen3.5-vl", ">=0.5.22", "plus_one", True, "models/qwen3_5.py", _DEEPSTACK, last_state="crashes"),
    _rule("glm4v", ">=0.5.2,<0.5.4.post2", "captures_nothing", False, "models/glm4v.py", default="none"),
    _rule("deepseek", ">=0.5.4.post2,<0.5.13", "plus_one", False, _DS, _PARTIAL_SUMS, _NO_GATHER, _TWO_BATCHES),
    _rule(
        *("deepseek", ">=0.5.13,<0.5.14", "plus_one_if_first_is_one", False, "sglang#25454"),
        *(_FIRST_ID, _PARTIAL_SUMS, _NO_GATHER, _TWO_BATCHES),
    ),
    _rule("deepseek", ">=0.5.14,<0.5.17", "plus_one_if_first_is_one", True, _COMMUNICATOR, _FIRST_ID, _TWO_BATCHES),
    _rule("deepseek", ">=0.5.17", "plus_one_if_first_is_one", True, _PACKER, _FIRST_ID, missing="fails"),
    _rule("glm4-moe-lite", ">=0.5.8,<0.5.13", "plus_one", False, _LITE, _PARTIAL_SUMS),
    _rule("glm4-moe-lite", ">=0.5.13,<0.5.14", "plus_one_if_first_is_one", False, _LITE, _FIRST_ID),
    _rule("glm4-moe-lite", ">=0.5.14,<0.5.21", "plus_one_if_first_is_one", False, _LITE, _FIRST_ID, _PARTIAL_SUMS),
    _rule("glm4-moe-lite", ">=0.5.21", "plus_one_if_first_is_one", True, _LITE, _FIRST_ID),
    _rule("glm4-moe", ">=0.5.5,<0.5.21", "plus_one", False, "models/glm4_moe.py", _PARTIAL_SUMS),
    _rule("glm4-moe", ">=0.5.21", "plus_one", True, "models/glm4_moe.py"),
    _rule("glm5-next", ">=0.5.20,<0.5.21", "plus_one", False, "models/glm5_next.py"),
    _rule("glm5-next", ">=0.5.21", "plus_one", True, "models/glm5_next.py"),
    _rule("gpt-oss", ">=0.5.1,<0.5.17", "plus_one", False, "models/gpt_oss.py, sglang#32226", _PARTIAL_SUMS),
    _rule(
        *("gpt-oss", ">=0.5.17,<0.5.21", "as_is_if_last_is_named", True, "models/gpt_oss.py, sglang#32334"),
        *(_PARTIAL_SUMS,),
        last_state="captured",
    ),
    _rule("gpt-oss", ">=0.5.21", "as_is_if_last_is_named", True, "models/gpt_oss.py", last_state="captured"),
    _rule("minimax-m2", ">=0.5.5.post1,<0.5.11", "plus_one", False, "models/minimax_m2.py"),
    _rule("minimax-m2", ">=0.5.11", "plus_one", True, "models/minimax_m2.py, layers/communicator.py"),
    _rule("minimax-m3", ">=0.5.16,<0.5.18", "captures_nothing", True, "models/minimax_m3.py", default="none"),
    _rule("minimax-m3", ">=0.5.18,<0.5.23", "plus_one", True, "models/minimax_m3.py"),
    _rule("minimax-m3", ">=0.5.23", "plus_one", True, "models/minimax_m3.py", last_state="captured"),
    _rule(
        *("minimax-m3-vl", ">=0.5.18,<0.5.23", "plus_one", True, "models/minimax_m3_vl.py", _DEFAULT_SHIFTED),
        default="canonical_plus_one",
    ),
    _rule(
        *("minimax-m3-vl", ">=0.5.23", "plus_one", True, "models/minimax_m3_vl.py", _DEFAULT_SHIFTED),
        default="canonical_plus_one",
        last_state="captured",
    ),
    _rule("bailing", ">=0.5.9,<0.5.21", "plus_one", True, "models/bailing_moe.py", _PARTIAL_SUMS),
    _rule("bailing", ">=0.5.21", "plus_one", True, "models/bailing_moe.py"),
    _rule("exaone-moe", ">=0.5.9,<0.5.22", "plus_one", False, "models/exaone_moe.py"),
    _rule("exaone-moe", ">=0.5.22", "plus_one", True, "models/exaone_moe.py"),
    _rule("apertus", ">=0.5.3,<0.5.22", "plus_one", False, "models/apertus.py"),
    _rule("apertus", ">=0.5.22", "plus_one", True, "models/apertus.py"),
    _rule("longcat", ">=0.5.6,<0.5.21", "plus_one", False, "models/longcat_flash.py"),
    _rule("longcat", ">=0.5.21", "plus_one", True, "models/longcat_flash.py"),
    _rule("gemma3", ">=0.5.12,<0.5.17", "plus_one", True, _GEMMA3, last_state="captured"),
    _rule("gemma3", ">=0.5.17", "residual_left_out", False, f"{_GEMMA3}, sglang#39286"),
    _rule("gemma4", ">=0.5.12,<0.5.22", "overwritten", False, f"{_GEMMA4_FILE}, sglang#39286"),
    _rule("gemma4", ">=0.5.22", "plus_one", True, _GEMMA4_FILE, last_state="captured"),
    IdRule(
        *("sglang", "mindspore", ">=0.5.10", "plus_one", False, "models/mindspore.py", "unknown"),
        caveats=(Caveat("the rule lies outside of SGLang, in the MindSpore package, and was not read"),),
    ),
)
