"""The result of ``hsforensics contract``; part of the result schema, see ``hsforensics.results``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hsforensics.results import SCHEMA_VERSION, Prediction, Provenance
from hsforensics.states import Finding, State


@dataclass(frozen=True)
class ContractSlot:
    """One slot of the promised wiring against a capture.

    Attributes:
        slot: Number in ``fc`` order.
        promised: The state that the contract names.
        served: Distance of the promised values to what the engine fed; ``None`` if it fed nothing, or not finite.
        nearest: The capture's own state that the promised values are nearest to; ``None`` without a bank.
        distance: Its distance.
        status: ``matched``, ``mismatched``, or ``unknown`` when there was nothing to compare with.
    """

    slot: int
    promised: State
    served: float | None
    nearest: State | None
    distance: float | None
    status: Literal["matched", "mismatched", "unknown"]


@dataclass(frozen=True)
class ContractResult:
    """What ``hsforensics contract write`` wrote or ``contract verify`` found.

    Attributes:
        action: ``write`` or ``verify``.
        path: The contract's file.
        states: The trained wiring that it promises.
        verdict: ``kept``, ``broken``, or ``undecided`` when what was given could not be compared.
        imprints: Sequences whose values it holds.
        rows: Rows compared with the capture.
        predicted: What the config makes each engine serve, per id rule.
        slots: One record for each slot, when a capture was given.
    """

    action: Literal["write", "verify"]
    path: str
    states: tuple[State, ...]
    verdict: Literal["kept", "broken", "undecided"]
    imprints: int
    rows: int
    predicted: tuple[Prediction, ...]
    slots: tuple[ContractSlot, ...]
    findings: tuple[Finding, ...]
    provenance: Provenance
    kind: Literal["contract"] = "contract"
    schema_version: Literal[1] = SCHEMA_VERSION
