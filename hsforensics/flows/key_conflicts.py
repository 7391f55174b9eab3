"""Several keys of one config hold layer ids: who reads which, and whether they can mean the same."""

from __future__ import annotations

import json

from hsforensics.drafter.config import DrafterConfig
from hsforensics.drafter.keys import IDS_KEYS, ids_keys
from hsforensics.findings import finding
from hsforensics.states import Finding


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


def key_conflicts(config: DrafterConfig) -> tuple[Finding, ...]:
    """One finding when two or more keys hold ids, with who reads each of them; nothing otherwise."""
    keys = ids_keys(config)
    if len(keys) < 2:
        return ()
    parts = [f"{key} = {json.dumps(config.get(key))[:60]} is read by {IDS_KEYS[key]}" for key in keys]
    message = f"{len(keys)} keys of this config hold layer ids, and engines read different ones"
    return (finding("keys-conflict", str(config.path), message, "; ".join(parts), confidence="claimed"),)
