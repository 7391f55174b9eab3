"""JSON at the edge: results to JSON text and back, and their published JSON schema.

pydantic validates on the way in; on the way out NaN and Inf become ``null``, since JSON has neither.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from hsforensics.errors import HsfError
from hsforensics.results import (
    SCHEMA_VERSION,
    CaptureResult,
    CompareResult,
    DraftEvalResult,
    FingerprintResult,
    FixConfigResult,
)
from hsforensics.results_config import PermuteResult, UndoResult
from hsforensics.results_contract import ContractResult
from hsforensics.results_demo import DemoResult
from hsforensics.results_findings import CatalogueResult
from hsforensics.results_rules import RulesResult

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Result: TypeAlias = (
    CaptureResult
    | CatalogueResult
    | CompareResult
    | ContractResult
    | DemoResult
    | DraftEvalResult
    | FingerprintResult
    | FixConfigResult
    | PermuteResult
    | RulesResult
    | UndoResult
)

RESULT_TYPES: dict[str, type[Any]] = {
    "capture": CaptureResult,
    "compare": CompareResult,
    "contract": ContractResult,
    "demo": DemoResult,
    "draft-eval": DraftEvalResult,
    "findings": CatalogueResult,
    "fingerprint": FingerprintResult,
    "fix-config": FixConfigResult,
    "permute-fc": PermuteResult,
    "rules": RulesResult,
    "undo-config": UndoResult,
}
"""``kind`` of a result -> its type; one published schema each."""


def _adapter(kind: str) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter, with_config

    strict = with_config(ConfigDict(extra="forbid", ser_json_inf_nan="null"))
    return TypeAdapter(strict(RESULT_TYPES[kind]))


def to_json(result: Result) -> str:
    """A result as one indented JSON object, without a trailing newline."""
    return str(_adapter(result.kind).dump_json(result, indent=2).decode())


def json_schema(kind: str) -> dict[str, Any]:
    """The JSON schema of a kind of result, as published in ``docs/schema``."""
    schema = _adapter(kind).json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def load_compare_report(path: Path) -> CompareResult:
    """Read the report that ``hsforensics compare --json`` wrote.

    Raises:
        HsfError: No such file, no JSON, or no compare report of schema version 1.
    """
    from pydantic import ValidationError

    remedy = "make one: hsforensics compare DUMPS CAPTURE --json > report.json"
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text)
    except FileNotFoundError:
        raise HsfError("not-found", path, "no such report", remedy) from None
    except (OSError, ValueError, RecursionError) as error:
        raise HsfError("report-foreign", path, f"no JSON ({error})", remedy) from None
    kind = found.get("kind") if isinstance(found, dict) else None
    if kind != "compare":
        held = f"a report of kind '{kind}'" if isinstance(kind, str) and kind in RESULT_TYPES else _named(path, found)
        raise HsfError("report-foreign", path, f"expected a report of hsforensics compare, found {held}", remedy)
    if found.get("schema_version") != SCHEMA_VERSION:
        message = f"schema_version must be {SCHEMA_VERSION}, got {found.get('schema_version')!r}"
        raise HsfError("report-foreign", path, message, remedy)
    try:
        result: CompareResult = _adapter("compare").validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise HsfError("report-foreign", path, f"'{where}': {first['msg']}", remedy) from None
    return result


def _named(path: Path, found: object) -> str:
    """What a JSON file without a kind of ours is, for people."""
    if not isinstance(found, dict):
        return "a JSON null" if found is None else f"a JSON {type(found).__name__}"
    if path.name == "config.json":
        return "the config of a model"
    return f"a JSON object with the keys {', '.join(map(str, list(found)[:4]))}" if found else "an empty JSON object"
