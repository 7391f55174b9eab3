"""Several keys of one config hold layer ids: who reads which, and what each makes its engine serve."""

from __future__ import annotations

import json
from dataclasses import replace

from hsforensics.drafter.config import DrafterConfig, predict_with
from hsforensics.drafter.keys import IDS_KEYS, ids_keys, layout_of, method_of
from hsforensics.errors import HsfError
from hsforensics.findings import finding
from hsforensics.results import Prediction
from hsforensics.rules.explain import what_is_served
from hsforensics.rules.forward import find_serving
from hsforensics.rules.lookup import EngineVersion
from hsforensics.rules.rows import AUX_SWITCH
from hsforensics.rules.tables import ENGINES
from hsforensics.states import Finding, Severity, Wiring

_READERS = ("sglang", "vllm-v1", "vllm-v2")


def conflict_finding(config: DrafterConfig, key: str, read: set[str | None]) -> Finding:
    """A key with ids that the engines in question do not read: left alone, but told.

    Args:
        config: The drafter's config.
        key: A key that holds ids.
        read: The keys that the engines in question read.
    """
    shown = json.dumps(config.get(key))[:80]
    others = ", ".join(sorted(name for name in read if name)) or "none"
    message = f"{key} = {shown} is left alone: it is read by {IDS_KEYS[key]}"
    evidence = f"the engines asked for read: {others}"
    remedy = "Keep it for engines that read it, and check what it means there: hsforensics rules --ids"
    return finding("keys-conflict", key, message, evidence, severity="info", remedy=remedy, confidence="claimed")


def key_conflicts(config: DrafterConfig, architecture: str, layers: int | None) -> list[Finding]:
    """What the newest version of each engine makes of a config that has ids under several keys.

    A warning when they would serve different states, an info when they agree; nothing for a config with one key.
    """
    keys = ids_keys(config)
    if len(keys) < 2:
        return []
    predicted = [found for name in _READERS if (found := _predicted(config, name, architecture, layers)) is not None]
    states = {item.states for item in predicted}
    parts = [f"{item.engine} reads {_ids(item)} and {what_is_served(item)}" for item in predicted]
    severity: Severity = "warning" if len(states) > 1 else "info"
    verdict = "engines would serve different states" if len(states) > 1 else "all of them agree"
    if len(states) == 1 and len(_with_switch_on(config, architecture, layers)) > 1:
        severity, verdict = "warning", f"all of them agree only because {AUX_SWITCH} is off: the keys do not"
    message = f"{len(keys)} keys of this config hold layer ids, and {verdict}: {'; '.join(parts) or 'no rule is known'}"
    evidence = "; ".join(f"{key} = {json.dumps(config.get(key))[:60]}" for key in keys)
    where = str(config.path)
    return [finding("keys-conflict", where, message, evidence, severity=severity, confidence="predicted")]


def layout_findings(config: DrafterConfig, read: set[str | None]) -> list[Finding]:
    """A layout that an engine cannot load at all, whatever its ids say."""
    if layout_of(config) != "speculators" or not any(key and key.startswith("eagle_config") for key in read):
        return []
    message = "this config has the layout of speculators, which SGLang has no loader for: ids alone will not do"
    evidence = "transformer_layer_config is there, and SGLang reads the sizes from the top level"
    remedy = "Convert the drafter to the flat layout first, or serve it with vLLM."
    return [finding("layout-unread", str(config.path), message, evidence, remedy=remedy, confidence="predicted")]


def _with_switch_on(config: DrafterConfig, architecture: str, layers: int | None) -> set[Wiring | None]:
    """What engines would serve if aux states were not switched off."""
    eagle = config.get(AUX_SWITCH.partition(".")[0])
    if not isinstance(eagle, dict) or config.use_aux_hidden_state:
        return set()
    on = replace(config, data={**config.data, "eagle_config": {**eagle, "use_aux_hidden_state": True}})
    found = (_predicted(on, name, architecture, layers) for name in _READERS)
    return {item.states for item in found if item is not None}


def _predicted(config: DrafterConfig, name: str, architecture: str, layers: int | None) -> Prediction | None:
    engine = EngineVersion(name, ENGINES[name].newest or "0")
    try:
        return predict_with(find_serving(engine, architecture, layers, method_of(config)), config)
    except HsfError:
        return None


def _ids(prediction: Prediction) -> str:
    return "no ids" if prediction.ids is None else str(list(prediction.ids))
