"""The rule book: everything that is known of engines, joined from one file for each.

Three tables, joined by engine, version, method and family. A new fact is a new row. Version ranges are half open and
follow PEP 440, so a pre-release of a version where something changed belongs to no row: nobody has looked at it.
"""

from __future__ import annotations

from typing import Final

from hsforensics.rules import sglang_config, sglang_eagle3, sglang_hooks, tensorrt_llm, vllm
from hsforensics.rules.rows import (
    AUX_COUNT,
    AUX_SWITCH,
    NESTED_IDS,
    TOP_LEVEL_IDS,
    Caveat,
    ConfigReading,
    Engine,
    IdRule,
    ModelClass,
    RunnerChoice,
)

__all__ = [
    "AUX_COUNT",
    "AUX_SWITCH",
    "CONFIG_READINGS",
    "ENGINES",
    "ID_RULES",
    "MODEL_CLASSES",
    "NESTED_IDS",
    "RUNNERS",
    "TOP_LEVEL_IDS",
    "Caveat",
    "ConfigReading",
    "Engine",
    "IdRule",
    "ModelClass",
    "RunnerChoice",
]

ENGINES: Final = {engine.name: engine for engine in (*sglang_config.ENGINES, *vllm.ENGINES, *tensorrt_llm.ENGINES)}
MODEL_CLASSES: Final[tuple[ModelClass, ...]] = (
    *sglang_eagle3.MODEL_CLASSES,
    *sglang_hooks.MODEL_CLASSES,
    *vllm.MODEL_CLASSES,
    *tensorrt_llm.MODEL_CLASSES,
)
ID_RULES: Final[tuple[IdRule, ...]] = (
    *sglang_eagle3.ID_RULES,
    *sglang_hooks.ID_RULES,
    *vllm.ID_RULES,
    *tensorrt_llm.ID_RULES,
)
CONFIG_READINGS: Final[tuple[ConfigReading, ...]] = (
    *sglang_config.CONFIG_READINGS,
    *vllm.CONFIG_READINGS,
    *tensorrt_llm.CONFIG_READINGS,
)
RUNNERS: Final[tuple[RunnerChoice, ...]] = vllm.RUNNERS
