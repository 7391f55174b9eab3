"""SGLang: which keys of a drafter's config each version reads."""

from __future__ import annotations

from typing import Final

from hsforensics.rules.rows import (
    AUX_COUNT,
    AUX_SWITCH,
    DFLASH_IDS,
    DSPARK_IDS,
    NESTED_IDS,
    TARGET_IDS,
    Caveat,
    ConfigReading,
    Engine,
)

ENGINES: Final = (Engine("sglang", "SGLang", "0.5.23", "sglang"),)

_RUNNER = "model_executor/model_runner.py"
_LATER = "model_executor/model_runner.py, from 0.5.16 model_runner_components/spec_aux_hidden_state.py"
_HOOKS = "speculative/dflash_utils.py"

_IDS_NEVER_READ = Caveat("this version never reads layer ids and always captures its default layers")
_GRAPHS_IGNORE_IDS = Caveat(
    "with CUDA graphs, decode and verify steps of this version capture the default layers whatever the ids say "
    "(sglang#22836 mends it in 0.5.11); only prefill follows the config",
    harmless_at_default=True,
)

CONFIG_READINGS: Final = (
    ConfigReading("sglang", ">=0.4.5,<0.4.9", None, None, None, 3, _RUNNER, (_IDS_NEVER_READ,)),
    ConfigReading("sglang", ">=0.4.9,<0.5.8", NESTED_IDS, None, None, 3, _RUNNER, (_GRAPHS_IGNORE_IDS,)),
    ConfigReading("sglang", ">=0.5.8,<0.5.11", NESTED_IDS, AUX_SWITCH, None, 3, _RUNNER, (_GRAPHS_IGNORE_IDS,)),
    ConfigReading("sglang", ">=0.5.11,<0.5.12", NESTED_IDS, AUX_SWITCH, None, 3, _RUNNER),
    ConfigReading("sglang", ">=0.5.12", NESTED_IDS, AUX_SWITCH, AUX_COUNT, None, _LATER),
    ConfigReading(
        *("sglang", ">=0.5.11", DFLASH_IDS, None, None, None, _HOOKS), method="dflash", fallback_keys=(TARGET_IDS,)
    ),
    ConfigReading(
        *("sglang", ">=0.5.16", DSPARK_IDS, None, None, None, _HOOKS),
        method="dspark",
        fallback_keys=(DFLASH_IDS, TARGET_IDS),
    ),
)
