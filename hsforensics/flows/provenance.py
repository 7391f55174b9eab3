"""Who computed a result, with what, when."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import hsforensics
from hsforensics.results import Provenance


def provenance(**fields: Any) -> Provenance:
    """A provenance record: version, command line and time are filled in, everything else is given by the caller."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Provenance(hsforensics=hsforensics.__version__, command=tuple(sys.argv), created=now, **fields)
