"""Values of a drafter's config, read strictly: a wrong one is named by its key, never guessed or let through."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hsforensics.errors import HsfError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CODE = "drafter-unreadable"
_SHOWN = 60  # characters of a wrong value


def positive_integer(config: Mapping[str, Any], key: str, where: Path, default: int | None = None) -> int:
    """A whole number above 0; ``null`` and a missing key mean the default, where there is one.

    Raises:
        HsfError: ``drafter-unreadable``, naming the key.
    """
    value = config.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise wrong(key, "a positive integer", value, where)
    return value


def positive_number(config: Mapping[str, Any], key: str, where: Path, default: float) -> float:
    """A finite number above 0, whole or not; ``null`` and a missing key mean the default.

    Raises:
        HsfError: ``drafter-unreadable``, naming the key.
    """
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(key, "a positive number", value, where)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 < number < math.inf:
        raise wrong(key, "a positive number", value, where)
    return number


def switch(config: Mapping[str, Any], key: str, where: Path) -> bool | None:
    """``true``, ``false``, or ``None`` for ``null`` and a missing key.

    Raises:
        HsfError: ``drafter-unreadable``, naming the key: a text such as ``"false"`` is not taken for true.
    """
    value = config.get(key)
    if value is not None and not isinstance(value, bool):
        raise wrong(key, "true or false", value, where)
    return value


def json_object(config: Mapping[str, Any], key: str, where: Path) -> dict[str, Any]:
    """An object; empty for ``null`` and a missing key.

    Raises:
        HsfError: ``drafter-unreadable``, naming the key.
    """
    value = config.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong(key, "an object", value, where)
    return value


def wrong(key: str, allowed: str, got: object, where: Path) -> HsfError:
    """The error for a key whose value cannot be right."""
    return HsfError(_CODE, where, f"'{key}' must be {allowed}, got {shown(got)}", "restore the config")


def shown(value: object) -> str:
    """A value of a stranger's config for a message: short, and never a number too long to be printed."""
    try:
        text = repr(value)
    except ValueError:  # more digits than Python prints
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
