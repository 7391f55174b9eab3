"""Results of ``fix-config --undo`` and ``fix-config --permute-fc``; part of the schema, see ``hsforensics.results``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hsforensics.results import SCHEMA_VERSION, Prediction, Provenance
from hsforensics.states import Finding, State


@dataclass(frozen=True)
class UndoResult:
    """What ``fix-config --undo`` did.

    Attributes:
        config_path: The file that holds its earlier bytes again.
        restored: The backup that they came from; it is gone now.
        kept: Where the bytes lie that the file held before the undo.
        diff: Unified diff of what changed.
    """

    config_path: str
    restored: str
    kept: str
    diff: str
    findings: tuple[Finding, ...]
    provenance: Provenance
    kind: Literal["undo-config"] = "undo-config"
    schema_version: Literal[1] = SCHEMA_VERSION


@dataclass(frozen=True)
class PermuteResult:
    """What ``fix-config --permute-fc`` wrote, and how its equality was proved.

    Attributes:
        output: The new checkpoint directory.
        trained: The wiring that the old checkpoint needs.
        wiring: The ascending wiring that the new one needs.
        order: For each slot of the new ``fc``, the slot of the old one that its columns come from.
        tensors: Names of the tensors that changed.
        blocks_equal: Every column block of the new tensors is bit-equal to its old one.
        outputs_rows: Rows of random input that were run through both, in fp64.
        outputs_difference: Largest difference of the two outputs, relative to the largest output.
        outputs_through: What was run: ``fc`` with the norms before it, or the whole drafter.
        predicted: What each engine asked for will serve with the new config.
    """

    output: str
    trained: tuple[State, ...]
    wiring: tuple[State, ...]
    order: tuple[int, ...]
    tensors: tuple[str, ...]
    blocks_equal: bool
    outputs_rows: int
    outputs_difference: float
    outputs_through: Literal["fc", "drafter"]
    predicted: tuple[Prediction, ...]
    findings: tuple[Finding, ...]
    provenance: Provenance
    kind: Literal["permute-fc"] = "permute-fc"
    schema_version: Literal[1] = SCHEMA_VERSION
