"""``contract write``: put what a drafter was trained on beside it, with values to prove it."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import hsforensics
from hsforensics.drafter.config import DrafterConfig, read_drafter_config
from hsforensics.drafter.contract import (
    Contract,
    ContractTarget,
    Imprint,
    contract_path,
    flags_of,
    imprint,
    write_contract_file,
)
from hsforensics.drafter.keys import method_of
from hsforensics.errors import HsfError
from hsforensics.flows.contract_inputs import read_wiring, shaped_samples
from hsforensics.flows.drafter_side import DrafterSide
from hsforensics.flows.fix_inputs import check_slots, own_side, trained_wiring
from hsforensics.flows.provenance import provenance
from hsforensics.flows.recognise import CONTRACT_WRITE_CALL, recognising
from hsforensics.models.checkpoint import open_checkpoint
from hsforensics.models.target import Target, load_target
from hsforensics.results_contract import ContractResult
from hsforensics.states import State

if TYPE_CHECKING:
    from torch import Tensor

    from hsforensics.results import CompareResult

SAMPLES = 2
"""Sequences whose values a contract keeps."""


@recognising(CONTRACT_WRITE_CALL)
def write_contract(
    drafter: str | Path,
    *,
    wiring: str | Sequence[State] | None = None,
    report: CompareResult | None = None,
    target: str | Path | None = None,
    layers: int | None = None,
    dumps: str | Path | None = None,
    samples: Iterable[tuple[Tensor | Sequence[int], Tensor | Sequence[Tensor]]] = (),
    target_state: State | None = None,
    producers: dict[str, str] | None = None,
    force: bool = False,
) -> ContractResult:
    """Write a drafter's contract.

    Args:
        drafter: The drafter's directory.
        wiring: The trained wiring, in ``fc`` order; or
        report: what ``compare`` found it to be. Exactly one of the two.
        target: The target's directory, for its identity.
        layers: L, where no target is given.
        dumps: Training data, whose first channels are what ``fc`` joins: the values to keep.
        samples: Such values at hand: (token ids [T], channels [T, H] each in ``fc`` order); ids may be a list, and
            a batch of one counts as its only sequence.
        target_state: What the trainer distilled from: L or ``postnorm``.
        producers: Program -> version, of what trained the drafter.
        force: Replace a contract that promises something else.

    Raises:
        HsfError: ``usage``, ``evidence-ambiguous``, ``report-foreign``, ``write-refused``, or an input is unreadable.
    """
    if (report is None) == (wiring is None):
        message = f"exactly one source of the trained wiring is needed, got {'both' if report else 'neither'}"
        raise HsfError("usage", "--report / --wiring", message, "give --report report.json, or --wiring STATES")
    drafter = Path(drafter)
    config = read_drafter_config(drafter)
    model = load_target(Path(target)) if target else None
    side = own_side(config, report, model)
    states = read_wiring(wiring) if wiring is not None else trained_wiring(report) if report else ()
    check_slots(states, side)
    imprints = tuple(_imprints(states, Path(dumps) if dumps else None, samples))
    contract = Contract(
        states=states,
        method=method_of(config),
        target=_target(model, report, layers),
        target_state=target_state if target_state is not None else _distilled(report),
        layout=config.layout,
        flags=drafter_flags(config, side),
        drafter_structure_sha256=side.structure_sha256,
        drafter_weights_sha256=side.weights_sha256,
        imprints=imprints,
        producers={**(producers or {}), "hsforensics": hsforensics.__version__, "python": platform.python_version()},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    path = contract_path(drafter)
    write_contract_file(path, contract, force=force)
    return ContractResult(
        action="write",
        path=str(path),
        states=states,
        verdict="kept",
        imprints=len(imprints),
        rows=0,
        predicted=(),
        slots=(),
        findings=(),
        provenance=provenance(
            drafter_path=str(drafter),
            drafter_config_sha256=config.sha256,
            drafter_structure_sha256=side.structure_sha256,
            drafter_weights_sha256=side.weights_sha256,
            target_path=str(target) if target else None,
            layers=contract.target.layers,
        ),
    )


def drafter_flags(config: DrafterConfig, side: DrafterSide) -> dict[str, bool]:
    """The norm switches of a drafter, see ``hsforensics.drafter.contract.flags_of``."""
    weights = open_checkpoint(side.path, "drafter-unreadable").tensors if side.structure_sha256 else {}
    return flags_of(config.data, set(weights))


def _imprints(states: tuple[State, ...], dumps: Path | None, samples: Iterable[object]) -> Iterable[Imprint]:
    for count, (token_ids, channels) in enumerate(shaped_samples(samples)):
        if count < SAMPLES:
            _check_count(states, len(channels), "samples")
            yield imprint(token_ids, channels)
    if dumps is not None:
        from hsforensics.dumps import open_dumps
        from hsforensics.flows.compare_inputs import read_samples

        found, _ = read_samples(open_dumps(dumps), SAMPLES)
        for sample in found:
            _check_count(states, len(sample.channels), sample.name)
            yield imprint(sample.token_ids, [channel.values for channel in sample.channels[: len(states)]])


def _check_count(states: tuple[State, ...], channels: int, where: str) -> None:
    if channels < len(states):
        message = f"{len(states)} states are promised, but it holds {channels} channels"
        raise HsfError("usage", where, message, "give the channels that fc joins, in its order")


def _target(model: Target | None, report: CompareResult | None, layers: int | None) -> ContractTarget:
    """The target's identity, from its files, or from the report's provenance."""
    if model is not None:
        return ContractTarget(
            model.wrapper_class, model.inner_class, model.config_sha256, model.layers, model.hidden_size
        )
    if report is not None:
        origin = report.provenance
        return ContractTarget(
            origin.target_wrapper, origin.target_inner, None, layers or origin.layers, origin.hidden_size
        )
    return ContractTarget(layers=layers)


def _distilled(report: CompareResult | None) -> State | None:
    channels = report.channels if report else ()
    return next((item.state for item in channels if item.side == "dump" and item.role == "target"), None)
