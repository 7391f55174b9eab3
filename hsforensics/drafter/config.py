"""A drafter's ``config.json``: where its layer ids live, and what an engine makes of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from hsforensics.errors import HsfError
from hsforensics.results import Prediction
from hsforensics.rules.forward import Serving, find_serving, serve
from hsforensics.rules.functions import Ids
from hsforensics.rules.lookup import EngineVersion
from hsforensics.rules.rows import AUX_COUNT, AUX_SWITCH, NESTED_IDS, TOP_LEVEL_IDS, ConfigReading
from hsforensics.rules.speculators import MODEL_TYPE, as_loaded
from hsforensics.states import POSTNORM

_CODE = "drafter-unreadable"
_BOM = b"\xef\xbb\xbf"
_ABSENT = object()


@dataclass(frozen=True)
class DrafterConfig:
    """A drafter's config as bytes and as data.

    Attributes:
        path: The ``config.json``.
        raw: Its bytes.
        data: Its JSON object; keys in file order.
    """

    path: Path
    raw: bytes
    data: dict[str, Any]

    @property
    def text(self) -> str:
        """The bytes as text, line ends untouched."""
        return self.raw.decode("utf-8")

    @property
    def sha256(self) -> str:
        """Hash of the bytes."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def nested_ids(self) -> Ids | None:
        """``eagle_config.eagle_aux_hidden_state_layer_ids``, or ``None`` when absent or no list of integers."""
        return _as_ids(self.get(NESTED_IDS))

    @property
    def top_level_ids(self) -> Ids | None:
        """Top-level ``eagle_aux_hidden_state_layer_ids``, or ``None`` when absent or no list of integers."""
        return _as_ids(self.get(TOP_LEVEL_IDS))

    @property
    def use_aux_hidden_state(self) -> object:
        """``eagle_config.use_aux_hidden_state``; ``True`` when absent, as engines take it."""
        return self.get(AUX_SWITCH, True)

    @property
    def num_aux_hidden_states(self) -> object:
        """Top-level ``num_aux_hidden_states``, or ``None``."""
        return self.get(AUX_COUNT)

    @property
    def layout(self) -> Literal["nested", "top-level", "both", "none"]:
        """Where layer ids lie in this file."""
        nested, top = self.nested_ids is not None, self.top_level_ids is not None
        if nested and top:
            return "both"
        return "nested" if nested else "top-level" if top else "none"

    def get(self, key: str, default: object = None) -> object:
        """The value of a dotted key, or ``default`` when any part of the way is missing or no object."""
        value: object = self.data
        for part in key.split("."):
            if not isinstance(value, dict) or part not in value:
                return default
            value = value[part]
        return value


@dataclass(frozen=True)
class IdsRead:
    """What an engine reads from a config.

    Attributes:
        ids: Layer ids; ``None`` when the engine finds none and takes its default.
        off: Aux states are switched off: the engine feeds postnorm alone, and skips ``fc``.
        fails: The value is there but no list of integers, so the engine fails.
        detail: What is the case, in words.
    """

    ids: Ids | None
    off: bool
    fails: bool
    detail: str


def read_drafter_config(path: Path) -> DrafterConfig:
    """Read a drafter's config.

    Args:
        path: The drafter's directory, or its ``config.json``.

    Raises:
        HsfError: ``not-found``, or ``drafter-unreadable``: no JSON object in UTF-8 without BOM and doubled keys.
    """
    if not path.exists():
        raise HsfError("not-found", path, "does not exist", "give the drafter's directory or its config.json")
    file = path / "config.json" if path.is_dir() else path
    try:
        return parse_drafter_config(file, file.read_bytes())
    except FileNotFoundError:
        raise HsfError(_CODE, file, "the file does not exist", "give the directory that holds config.json") from None
    except OSError as error:
        raise HsfError(_CODE, file, f"not readable ({error.strerror})", "check the file's permissions") from None


def parse_drafter_config(path: Path, raw: bytes) -> DrafterConfig:
    """Parse a config's bytes, strictly: an edit must not guess which of two equal keys counts.

    Raises:
        HsfError: ``drafter-unreadable``.
    """
    if raw.startswith(_BOM):
        raise HsfError(_CODE, path, "starts with a byte order mark, which loaders reject", "save it as plain UTF-8")
    try:
        data = json.loads(raw.decode("utf-8"), object_pairs_hook=lambda pairs: _object(pairs, path))
    except (ValueError, RecursionError) as error:
        raise HsfError(_CODE, path, f"no JSON in UTF-8 ({error})", "restore the file from its source") from None
    if not isinstance(data, dict):
        raise HsfError(_CODE, path, f"holds a JSON {type(data).__name__}, not an object", "restore the file")
    return DrafterConfig(path, raw, data)


def ids_read_by(config: DrafterConfig, reading: ConfigReading) -> IdsRead:
    """What an engine with this row of ``CONFIG_READINGS`` reads from a config."""
    if not reading.keys:
        return IdsRead(None, off=False, fails=False, detail=_never(reading))
    found = {key: value for key in reading.keys if (value := config.get(key)) is not None}
    if reading.lenient:
        found = {key: value for key, value in found.items() if isinstance(value, list) and value}
    key, value = next(iter(found.items()), (reading.keys[0], None))
    ids = _as_ids(value)
    if reading.switch_key and not config.get(reading.switch_key, True):
        return IdsRead(ids, off=True, fails=False, detail=f"{reading.switch_key} is off")
    if ids is None and value is not None:
        return IdsRead(None, off=False, fails=True, detail=f"{key} is no list of integers")
    if ids is None:
        return IdsRead(None, off=False, fails=False, detail=_why_absent(config, key))
    return IdsRead(ids, off=False, fails=False, detail=key)


def serving_of(serving: Serving, config: DrafterConfig) -> Serving:
    """The rows that apply to this very config, whose layout may take another way into the engine."""
    return as_loaded(serving, config.get(MODEL_TYPE))


def predict_with(serving: Serving, config: DrafterConfig) -> Prediction:
    """What a config makes an engine serve, under the id rule; see ``hsforensics.rules.forward.serve``."""
    serving = serving_of(serving, config)
    read = ids_read_by(config, serving.reading)
    predicted = serve(serving, read.ids)
    if read.off:
        note = f"{read.detail}: the engine feeds postnorm alone and skips fc"
        return replace(predicted, states=(POSTNORM,), note=note, trouble="")
    if read.fails:
        trouble = f"{read.detail}: the engine fails when it starts"
        return replace(predicted, states=None, note=trouble, trouble=trouble)
    if serving.rule.rule == "ignores_ids" or read.ids is None:
        return replace(predicted, note=f"{predicted.note}; default layers, since {read.detail}")
    return predicted


def predict(config: DrafterConfig, engine: str, version: str, architecture: str, layers: int | None) -> Prediction:
    """``predict_with`` the tables' rows for an engine, a version and a class.

    Raises:
        HsfError: ``rule-unknown``.
    """
    return predict_with(find_serving(EngineVersion(engine, version), architecture, layers), config)


def _never(reading: ConfigReading) -> str:
    if reading.argument:
        return f"this engine reads no ids from the config, but from its launch argument {reading.argument}"
    return "this version never reads layer ids"


def _as_ids(value: object) -> Ids | None:
    if isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        return tuple(value)
    return None


def _why_absent(config: DrafterConfig, key: str) -> str:
    parent, _, name = key.rpartition(".")
    holder = config.get(parent, _ABSENT) if parent else config.data
    if isinstance(holder, dict):
        return f"{key} is null" if name in holder else f"{key} is absent"
    if holder is _ABSENT:
        return f"{parent} is absent"
    return f"{parent} is {json.dumps(holder)[:40]}, no object"


def _object(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise HsfError(_CODE, path, f"holds the key '{key}' twice in one object", "remove one of the two")
        made[key] = value
    return made
