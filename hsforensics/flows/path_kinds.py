"""What lies at a path: dumps, a capture, a fingerprint, a target, a drafter or a report, told by its files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, TypeAlias

from hsforensics.capture.store import is_capture
from hsforensics.drafter.config import parse_drafter_config
from hsforensics.drafter.keys import ids_keys
from hsforensics.dumps import open_dumps
from hsforensics.errors import HsfError
from hsforensics.flows.fingerprint_file import is_fingerprint, read_fingerprint
from hsforensics.models.checkpoint import open_checkpoint
from hsforensics.models.target import load_target

Kind: TypeAlias = Literal[
    "dumps", "capture", "fingerprint", "fingerprint of dumps", "fingerprint of a capture", "target", "drafter", "report"
]

KINDS: Final[dict[Kind, str]] = {
    "dumps": "training dumps",
    "capture": "a capture",
    "fingerprint": "a fingerprint",
    "fingerprint of dumps": "the fingerprint of dumps",
    "fingerprint of a capture": "the fingerprint of a capture",
    "target": "a target model",
    "drafter": "a drafter",
    "report": "a report of hsforensics compare",
}
"""Every kind of path that a command takes, and what it is called."""

_DRAFTER_CLASS = re.compile("eagle|dflash|dspark|draft", re.IGNORECASE)
_DRAFTER_KEYS = ("eagle_config", "dflash_config", "draft_vocab_size", "speculators_model_type")


def kind_of(path: Path) -> Kind | None:
    """What a path is by what lies there, or ``None`` where it is nothing that a command takes, or not there."""
    try:
        return next((kind for kind, is_one in _TESTS if is_one(path)), None)
    except OSError:
        return None


def _fingerprinted(kind: str) -> Callable[[Path], bool]:
    def is_one(path: Path) -> bool:
        try:
            return is_fingerprint(path) and read_fingerprint(path)[0].kind == kind
        except HsfError:  # sealed under a salt, or torn: its side is not known
            return False

    return is_one


def _is_report(path: Path) -> bool:
    if not path.is_file() or path.suffix != ".json":
        return False
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("kind") == "compare"


def _is_drafter(path: Path) -> bool:
    file = path / "config.json"
    if not file.is_file():
        return False
    try:
        config = parse_drafter_config(file, file.read_bytes())
        if ids_keys(config) or any(config.get(key) is not None for key in _DRAFTER_KEYS):
            return True
        if _DRAFTER_CLASS.search(str(config.get("architectures"))):
            return True
        names = open_checkpoint(path, "drafter-unreadable").tensors
    except HsfError:
        return False
    return any(name == "fc.weight" or name.endswith(".fc.weight") for name in names)


def _opens(open_path: Callable[[Path], object]) -> Callable[[Path], bool]:
    def is_one(path: Path) -> bool:
        try:
            open_path(path)
        except HsfError:
            return False
        return True

    return is_one


_TESTS: tuple[tuple[Kind, Callable[[Path], bool]], ...] = (
    ("fingerprint of dumps", _fingerprinted("dump")),
    ("fingerprint of a capture", _fingerprinted("capture")),
    ("fingerprint", is_fingerprint),
    ("capture", is_capture),
    ("report", _is_report),
    ("drafter", _is_drafter),
    ("target", _opens(load_target)),
    ("dumps", _opens(open_dumps)),
)
"""Kind -> how it is known; the first that holds."""
