"""Every key of a drafter's config that may hold layer ids, and which engines read which."""

from __future__ import annotations

from typing import Final

from hsforensics.drafter.config import DrafterConfig
from hsforensics.rules.rows import (
    DFLASH_IDS,
    DSPARK_IDS,
    METHODS,
    NESTED_IDS,
    SPECULATORS_IDS,
    TARGET_IDS,
    TOP_LEVEL_IDS,
    ConfigReading,
    Method,
)
from hsforensics.rules.speculators import MODEL_TYPE

IDS_KEYS: Final = {
    NESTED_IDS: "SGLang, and vLLM's V1 runner from 0.22 where the top level has none",
    TOP_LEVEL_IDS: "vLLM from 0.11.1, and no SGLang",
    DFLASH_IDS: "DFlash drafters in SGLang and vLLM",
    TARGET_IDS: "DFlash and DSpark drafters in SGLang, where dflash_config has none",
    DSPARK_IDS: "DSpark drafters in SGLang and vLLM",
    SPECULATORS_IDS: "vLLM's loader of speculators' DFlash and DSpark drafters, which overwrites dflash_config",
    "aux_hidden_states_layer_ids": "no engine (mind the s of 'states')",
    "eagle_config.layer_ids": "vLLM's V2 runner from 0.28 where the top level has none",
    "dflash_config.layer_ids": "vLLM's V2 runner from 0.28",
}
"""Dotted key -> who reads it."""

_SPECULATORS_LAYER = "transformer_layer_config"


def ids_keys(config: DrafterConfig) -> tuple[str, ...]:
    """Keys with ids that a config holds, in the order of ``IDS_KEYS``."""
    return tuple(key for key in IDS_KEYS if config.get(key) is not None)


def read_key(config: DrafterConfig, reading: ConfigReading) -> str | None:
    """The key that an engine takes its ids from in this config: its first that is there, else where it looks first."""
    return next((key for key in reading.keys if config.get(key) is not None), reading.ids_key)


def method_of(config: DrafterConfig) -> Method:
    """Kind of drafter: the layout's own word, else class name and keys; ``eagle3`` where nothing says otherwise."""
    said = config.get(MODEL_TYPE)
    for method in METHODS:
        if said == method:
            return method
    names = config.get("architectures")
    first = str(names[0]).lower() if isinstance(names, list) and names else ""
    if "dspark" in first or config.get(DSPARK_IDS) is not None:
        return "dspark"
    return "dflash" if "dflash" in first or config.get("dflash_config") is not None else "eagle3"


def layout_of(config: DrafterConfig) -> str:
    """Who wrote this config, as far as its keys show: for messages."""
    if config.get(_SPECULATORS_LAYER) is not None:
        return "speculators"
    if config.get("auto_map") is not None:
        return "flat, with remote code (never executed here)"
    return "flat"
