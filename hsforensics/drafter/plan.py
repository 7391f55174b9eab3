"""The edits after which every engine asked for serves one wiring, computed engine by engine and checked together.

Engines share a config file: one list must do for all that read the same key, and a key that is written for one engine
must not spoil another that reads it only as a fallback. So edits are applied to a copy and every engine is asked again,
until all of them are content.
"""

from __future__ import annotations

from collections.abc import Iterator

from hsforensics.drafter.config import DrafterConfig, parse_drafter_config, predict_with, serving_of
from hsforensics.drafter.edits import Change, apply_changes, count_changes, ids_changes
from hsforensics.errors import HsfError
from hsforensics.rules.explain import explain_ids
from hsforensics.rules.forward import Serving, apply_rule
from hsforensics.rules.functions import Ids
from hsforensics.rules.inverse import candidates, ids_to_write
from hsforensics.states import State, show_wiring


def plan_changes(
    config: DrafterConfig, servings: tuple[Serving, ...], wiring: tuple[State, ...], content: tuple[Serving, ...] = ()
) -> tuple[Change, ...]:
    """What must change; nothing for engines that serve the wiring already.

    Args:
        config: As read.
        servings: The engines.
        wiring: The states that all of them must serve.
        content: Engines that were measured to serve it, whatever their rule says.

    Raises:
        HsfError: ``not-expressible``: an engine cannot serve the wiring, or two engines cannot share a key.
    """
    changes: dict[str, Change] = {}
    servings, content = (tuple(serving_of(serving, config) for serving in given) for given in (servings, content))
    for _ in range(len(servings) + 1):
        now = _with(config, changes)
        wrong = [s for s in servings if s not in content and predict_with(s, now).states != wiring]
        found = [change for serving in wrong for change in _changes_for(serving, now, servings, wiring)]
        found += [change for s in servings for change in count_changes(now, s.reading, len(wiring))]
        if not found:
            break
        changes |= {change.key: change for change in found}
    return tuple(changes.values())


def _with(config: DrafterConfig, changes: dict[str, Change]) -> DrafterConfig:
    text = apply_changes(config.text, tuple(changes.values()))
    return parse_drafter_config(config.path, text.encode())


def _changes_for(
    serving: Serving, config: DrafterConfig, servings: tuple[Serving, ...], wiring: tuple[State, ...]
) -> Iterator[Change]:
    """The changes that make one engine read the right list."""
    preferred = ids_to_write(serving, wiring)
    key = serving.reading.ids_key
    if key is None:
        if serving.reading.argument is None:
            return
        message = f"it reads no layer ids from the config: pass it {serving.reading.argument}={list(preferred)}"
        remedy = "nothing to write for this engine; leave its --engine out"
        raise HsfError("not-expressible", serving, message, remedy)
    sharing = [other for other in servings if other.reading.ids_key == key]
    ids = _common(preferred, sharing, wiring)
    yield from ids_changes(config, serving.reading, ids, explain_ids(serving, ids, wiring))


def _common(preferred: Ids, sharing: list[Serving], wiring: tuple[State, ...]) -> Ids:
    """The first list that every engine of one key maps to the wiring."""
    for ids in dict.fromkeys((preferred, *candidates(wiring))):
        if all(apply_rule(other.rule, ids, other.layers)[0] == wiring for other in sharing):
            return ids
    names = " and ".join(str(other.engine) for other in sharing)
    lists = ", ".join(f"{list(ids_to_write(other, wiring))} for {other.engine}" for other in sharing)
    message = f"no one list means {show_wiring(wiring)} to all of them, and they read the same key: {lists}"
    raise HsfError("not-expressible", names, message, "write a config for each: --output DIR with one --engine each")
