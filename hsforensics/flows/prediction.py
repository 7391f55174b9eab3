"""What a drafter's config would make an engine serve: the id rule's word, marked as a prediction."""

from __future__ import annotations

from hsforensics.flows.drafter_side import DrafterSide
from hsforensics.results import Prediction, Provenance
from hsforensics.states import Finding, Wiring


def predict_serving(
    drafter: DrafterSide | None,
    origin: Provenance,
    trained: Wiring | None,
    served: Wiring | None,
    *,
    engine: str | None,
    architecture: str | None,
) -> tuple[Prediction | None, list[Finding]]:
    """Predict."""
    return None, []
