"""``findings``: what this version can report, and what each code means."""

from __future__ import annotations

from hsforensics.errors import HsfError, closest
from hsforensics.findings import CATALOGUE
from hsforensics.flows.provenance import provenance
from hsforensics.results_findings import CatalogueResult


def catalogue(code: str | None = None) -> CatalogueResult:
    """The kinds of finding, in documentation order.

    Args:
        code: One of them to explain; all by default.

    Raises:
        HsfError: ``usage``: there is no such code.
    """
    if code is not None and code not in CATALOGUE:
        meant = closest(code, CATALOGUE)
        remedy = f"did you mean {meant}?" if meant else "list them all: hsforensics findings"
        raise HsfError("usage", "hsforensics findings", f"no finding is called {code!r}", remedy)
    kinds = tuple(CATALOGUE.values()) if code is None else (CATALOGUE[code],)
    return CatalogueResult(kinds, provenance())
