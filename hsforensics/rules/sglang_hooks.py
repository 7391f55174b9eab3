"""SGLang's hooks for DFLASH and DSPARK drafters; see ``hsforensics.rules.sglang_eagle3`` for how the rows are known.

Ids come from ``target_layer_ids``, are checked against ``0..L-1`` before the hook sees them, and a hook without ids
refuses; SGLang then makes up a default that depends on the drafter.
"""

from __future__ import annotations

from typing import Final, Literal

from packaging.version import Version

from hsforensics.rules.rows import IdRule, Method, ModelClass
from hsforensics.rules.sglang_eagle3 import MODEL_CLASSES as _EAGLE3

_Last = Literal["captured", "lost", "crashes"]


def _like_eagle3(families: tuple[str, ...], kind: str, since: str) -> tuple[ModelClass, ...]:
    """Classes that inherit the hook beside their EAGLE-3 hook, since the same version or later."""
    return tuple(
        ModelClass("sglang", row.name, kind, max(row.since, since, key=Version), method="dflash")
        for row in _EAGLE3
        if row.family in families and row.until is None and row.name not in _NO_DFLASH
    )


_NO_DFLASH = (
    "Llama4ForConditionalGeneration",
    "Qwen2ForCausalLM",
    "Qwen2MoeForCausalLM",
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForCausalLM",
)


def _own(kind: str, method: Method, names: dict[str, str]) -> tuple[ModelClass, ...]:
    return tuple(ModelClass("sglang", name, kind, since, method=method) for name, since in names.items())


MODEL_CLASSES: Final = (
    *_like_eagle3(("llama", "deepseek", "qwen"), "dflash", "0.5.11"),
    *_like_eagle3(("glm4-moe-lite",), "dflash", "0.5.11"),
    *_like_eagle3(("glm5-next",), "dflash", "0.5.20"),
    *_like_eagle3(("qwen-moe", "qwen-flags", "qwen-vl-moe", "qwen3.5-vl"), "dflash-flags", "0.5.11"),
    *_like_eagle3(("qwen-vl",), "dflash-broken", "0.5.11"),
    *_like_eagle3(("gemma4",), "dflash-gemma4", "0.5.14"),
    *_own("dflash-gpt-oss", "dflash", {"GptOssForCausalLM": "0.5.11"}),
    *_own("dflash-qwen3.5", "dflash", {"Qwen3_5ForCausalLM": "0.5.18", "Qwen3_5MoeForCausalLM": "0.5.18"}),
    *_own("dflash-last", "dflash", {"LagunaForCausalLM": "0.5.15", "Lfm2ForCausalLM": "0.5.19"}),
    *_own("dflash-last", "dflash", {"Lfm2MoeForCausalLM": "0.5.19", "Lfm2VlForConditionalGeneration": "0.5.21"}),
    *_own("dflash-last", "dflash", {"NemotronHForCausalLM": "0.5.19", "NemotronHPuzzleForCausalLM": "0.5.19"}),
    *_own("dflash-last", "dflash", {"NemotronH_Nano_VL_V2": "0.5.20", "NemotronH_Nano_Omni_Reasoning_V3": "0.5.20"}),
    *_own("dflash-last", "dflash", {"NemotronH_Omni_Reasoning_V3": "0.5.20", "MiMoV2ForCausalLM": "0.5.20"}),
    *_own("dflash-last", "dflash", {"MiMoV2FlashForCausalLM": "0.5.20"}),
    *_own("dflash-last", "dflash", {"MiniMaxM3SparseForConditionalGeneration": "0.5.23"}),
    *_own("dflash", "dflash", {"NanbeigeForCausalLM": "0.5.20"}),
    *_own("dflash-output", "dflash", {"InklingForConditionalGeneration": "0.5.17", "BeamForCausalLM": "0.5.23"}),
    *_own("dflash-output", "dflash", {"KimiK3ForConditionalGeneration": "0.5.21", "KimiK3LinearForCausalLM": "0.5.21"}),
    *_own("dflash-output", "dflash", {"MuseGlimmerForCausalLM": "0.5.18"}),
    *_own("dflash-output", "dflash", {"MuseGlimmerForConditionalGeneration": "0.5.18"}),
    *_own("dflash-output", "dflash", {"MuseSparkForConditionalGeneration": "0.5.23"}),
    *_own("dspark-output", "dspark", {"DeepseekV4ForCausalLM": "0.5.16", "BailingMoeV3ForCausalLM": "0.5.19"}),
    *_own("dspark-output", "dspark", {"KimiLinearForCausalLM": "0.5.17", "KimiK3LinearForCausalLM": "0.5.19"}),
    *_own("dspark-output", "dspark", {"KimiK3ForConditionalGeneration": "0.5.17"}),
    *_own("dspark", "dspark", {"MiniMaxM3SparseForConditionalGeneration": "0.5.23"}),
)


def _rule(
    family: str, versions: str, rule: str, source: str, last: _Last = "lost", method: Method = "dflash"
) -> IdRule:
    """A row: state 0 would be id -1, which the range check refuses, in all of them."""
    return IdRule(
        *("sglang", family, versions, rule, False, source, "executed on stubs"),
        default="spread",
        last_state=last,
        method=method,
    )


# A hook that stores ids as they are belongs to a model that captures after the layer, so an id means state id + 1, too.
ID_RULES: Final = (
    _rule("dflash", ">=0.5.11", "plus_one", "models/llama.py, models/deepseek_v2.py"),
    _rule("dflash-flags", ">=0.5.11", "plus_one", "models/qwen3_moe.py, models/qwen3_next.py", "crashes"),
    _rule("dflash-broken", ">=0.5.11", "fails", "models/qwen3_vl.py: the model inside has no DFLASH hook"),
    _rule("dflash-last", ">=0.5.15", "plus_one", "models/laguna.py, lfm2.py, nemotron_h.py", "captured"),
    _rule("dflash-gemma4", ">=0.5.14,<0.5.22", "overwritten", "models/gemma4_causal.py, sglang#39286"),
    _rule("dflash-gemma4", ">=0.5.22", "plus_one", "models/gemma4_causal.py", "captured"),
    _rule("dflash-gpt-oss", ">=0.5.11,<0.5.17", "plus_one", "models/gpt_oss.py"),
    _rule("dflash-gpt-oss", ">=0.5.17", "plus_one", "models/gpt_oss.py", "captured"),
    _rule("dflash-qwen3.5", ">=0.5.18,<0.5.22", "as_is", "models/qwen3_5_text.py: a second hook hides the first"),
    _rule("dflash-qwen3.5", ">=0.5.22", "plus_one", "models/qwen3_5_text.py", "crashes"),
    _rule("dflash-output", ">=0.5.17", "plus_one", "models/inkling.py, kimi_k3.py, muse_glimmer.py", "captured"),
    _rule("dspark-output", ">=0.5.16", "plus_one", "models/deepseek_v4.py, kimi_linear.py", "captured", "dspark"),
    _rule("dspark", ">=0.5.23", "plus_one", "models/minimax_m3_vl.py", "captured", "dspark"),
)

STORED_AS_THEY_ARE: Final = ("dflash-output", "dspark-output")
"""Families that store ids ``as_is`` and capture after the layer, which means ``plus_one``."""
