"""Who computed a result, with what, when."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import hsforensics
from hsforensics.results import Provenance

_SALT = "--salt"
HIDDEN = "***"
"""What stands for a secret in a result."""


def provenance(**fields: Any) -> Provenance:
    """A provenance record: version, command line and time are filled in, everything else is given by the caller."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    command = without_secrets(sys.argv)
    return Provenance(hsforensics=hsforensics.__version__, command=command, created=now, **fields)


def without_secrets(command: Sequence[str]) -> tuple[str, ...]:
    """A command line without the salt, which opens fingerprints: reports travel."""
    before = ("", *command)
    return tuple(
        HIDDEN if last == _SALT else f"{_SALT}={HIDDEN}" if word.startswith(f"{_SALT}=") else word
        for last, word in zip(before, command, strict=False)
    )
