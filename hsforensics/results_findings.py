"""The result of ``hsforensics findings``; part of the result schema, see ``hsforensics.results``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hsforensics.finding_kinds import FindingKind
from hsforensics.results import SCHEMA_VERSION, Provenance


@dataclass(frozen=True)
class CatalogueResult:
    """What ``hsforensics findings`` lists: every kind of finding that this version reports, or the one asked for."""

    catalogue: tuple[FindingKind, ...]
    provenance: Provenance
    kind: Literal["findings"] = "findings"
    schema_version: Literal[1] = SCHEMA_VERSION
