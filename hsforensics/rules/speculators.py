"""Drafters in the layout of speculators: vLLM's loader rewrites their config before any runner reads it.

For DFlash and DSpark it takes the top-level ``aux_hidden_state_layer_ids`` and overwrites ``dflash_config`` with it:
less 1 from 0.22 on, where the runner adds 1 again, and unchanged before. Either way an id is a state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hsforensics.rules.forward import Serving
from hsforensics.rules.lookup import covers
from hsforensics.rules.rows import SPECULATORS_IDS, ConfigReading, IdRule, Method
from hsforensics.rules.tables import ENGINES

MODEL_TYPE: Final = "speculators_model_type"
"""The key of a drafter's config that says which loader applies."""

_LOADER: Final = "transformers_utils/configs/speculators/algos.py"


def _rule(versions: str, method: Method) -> IdRule:
    return IdRule(
        *("vllm", "speculators", versions, "as_is", False, _LOADER, "read from source"),
        default="refused",
        last_state="captured",
        method=method,
    )


def _reading(versions: str, method: Method) -> ConfigReading:
    return ConfigReading("vllm", versions, SPECULATORS_IDS, None, None, None, _LOADER, method=method)


ROWS: Final = (
    (_rule(">=0.20.2", "dflash"), _reading(">=0.20.2", "dflash")),
    (_rule(">=0.28", "dspark"), _reading(">=0.28", "dspark")),
)
"""What applies to such a config, for both of vLLM's runners."""


def as_loaded(serving: Serving, model_type: object) -> Serving:
    """The rows that apply once the engine's loader has rewritten a config.

    Args:
        serving: As the tables have it.
        model_type: The config's ``speculators_model_type``, or ``None``.

    Returns:
        ``serving`` itself for other engines, layouts and kinds of drafter.
    """
    engine = ENGINES.get(serving.engine.name)
    if engine is None or engine.rules_of != "vllm" or serving.method != model_type:
        return serving
    for rule, reading in ROWS:
        if rule.method == model_type and covers(rule.versions, serving.engine.version):
            return replace(serving, rule=rule, reading=replace(reading, engine=serving.reading.engine))
    return serving
