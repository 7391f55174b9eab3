"""Whether what was given as a drafter is one, and what a comparison cannot learn from it."""

from __future__ import annotations

from collections.abc import Mapping

from hsforensics.errors import HsfError
from hsforensics.findings import finding
from hsforensics.flows.drafter_side import DrafterSide
from hsforensics.states import Finding

_MEANWHILE = "which channels are aux follows from their values, or from convention: all but the last"


def check_drafter(side: DrafterSide, targets: Mapping[str, str | None]) -> list[Finding]:
    """Refuse the target where the drafter belongs, told by its config; and tell where no ``fc`` was there to be read.

    Args:
        side: What was given as a drafter.
        targets: Whose target, in words -> hash of the target's config; ``None`` where there is none.

    Raises:
        HsfError: ``usage``.
    """
    for whose, known in targets.items():
        if side.config_sha256 == known:
            message = f"{side.path} is the target, not a drafter: it has the config.json of {whose}"
            raise HsfError("usage", "--draft", message, "give the drafter's own directory")
    if side.fc_channels is not None:
        return []
    held = "no weights lie beside its config" if side.structure_sha256 is None else "its weights hold no fc.weight"
    evidence = "no *.safetensors, no *.bin" if side.structure_sha256 is None else "names of its tensors"
    return [finding("fc-unread", str(side.path), f"the drafter's fc was not read, for {held}: {_MEANWHILE}", evidence)]
