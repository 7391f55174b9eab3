"""``fix-config --permute-fc``: a wiring that no id list can express, because engines join states in ascending order.

The drafter's columns are reordered instead, in a new checkpoint that appears only after both were proved to be equal.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hsforensics.drafter.config import DrafterConfig, parse_drafter_config, predict_with, read_drafter_config
from hsforensics.drafter.edits import apply_changes
from hsforensics.drafter.output import copy_siblings, keep_mode, place_directory, refuse_occupied, write_failed
from hsforensics.drafter.permute import ascending_order, write_permuted
from hsforensics.drafter.permute_proof import Proof, prove_equal
from hsforensics.drafter.plan import plan_changes
from hsforensics.errors import HsfError
from hsforensics.findings import fill_findings, finding
from hsforensics.flows.fix_inputs import FixInputs, FixWishes, known_words_of, resolve_inputs
from hsforensics.flows.known import to_measure
from hsforensics.flows.provenance import provenance
from hsforensics.models.checkpoint import open_checkpoint
from hsforensics.models.target import load_target
from hsforensics.results_config import PermuteResult
from hsforensics.states import State, show_wiring

if TYPE_CHECKING:
    from hsforensics.models.target import Target

_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth")


def permute_fc(drafter: Path, wishes: FixWishes, output: Path, *, seed: int = 0) -> PermuteResult:
    """Write a new checkpoint whose ``fc`` takes the trained states in ascending order.

    Args:
        drafter: The drafter's directory.
        wishes: The trained wiring, the engines, and the target, as for ``fix_config``. With a target the whole drafter
            is run for the proof, else ``fc`` and the norms before it, which is all that the channels pass through.
        output: Directory to make; it appears whole or not at all.
        seed: Of the random inputs.

    Raises:
        HsfError: See ``resolve_inputs``; ``usage`` for a wiring that ascends already; ``not-expressible``;
            ``drafter-unreadable``; ``write-refused``.
    """
    config = read_drafter_config(drafter)
    inputs = resolve_inputs(config, wishes)
    order = ascending_order(inputs.wiring)
    if order == tuple(range(len(order))):
        message = f"{show_wiring(inputs.wiring)} ascends already, so there is nothing to permute"
        raise HsfError("usage", "--permute-fc", message, "leave --permute-fc out")
    wiring = tuple(inputs.wiring[slot] for slot in order)
    fixed = _config_for(config, inputs, wiring)
    refuse_occupied(output)
    target = load_target(wishes.target) if wishes.target else None
    tensors, proof = _write(config, fixed, order, output, target, seed)
    predicted = tuple(predict_with(each.serving, fixed) for each in inputs.engines)
    title = inputs.engines[0].engine.title
    message = f"{title} will serve {show_wiring(wiring)} to the new checkpoint by its id rule; predicted, not measured"
    live = to_measure(predicted[0].engine)
    note = predicted[0].note
    told = finding("predicted-not-measured", str(output), message, note, confidence="predicted", commands=live)
    return PermuteResult(
        output=str(output),
        trained=inputs.wiring,
        wiring=wiring,
        order=order,
        tensors=tensors,
        blocks_equal=proof.blocks_equal,
        outputs_rows=proof.rows,
        outputs_difference=proof.difference,
        outputs_through=proof.through,
        predicted=predicted,
        findings=fill_findings([told], known_words_of(output, wishes)),
        provenance=provenance(
            drafter_path=str(drafter),
            drafter_config_sha256=fixed.sha256,
            target_path=str(wishes.target) if wishes.target else None,
            layers=inputs.layers,
            engine=inputs.engines[0].engine.name,
            engine_version=inputs.engines[0].engine.version,
            seeds={"inputs": seed},
        ),
    )


def _config_for(config: DrafterConfig, inputs: FixInputs, wiring: tuple[State, ...]) -> DrafterConfig:
    changes = plan_changes(config, tuple(each.serving for each in inputs.engines), wiring)
    return parse_drafter_config(config.path, apply_changes(config.text, changes).encode())


def _write(
    config: DrafterConfig,
    fixed: DrafterConfig,
    order: tuple[int, ...],
    output: Path,
    target: Target | None,
    seed: int,
) -> tuple[tuple[str, ...], Proof]:
    """The new directory: made under another name, proved, then given its own by one rename."""
    source = config.path.parent
    checkpoint = open_checkpoint(source, "drafter-unreadable")
    weights = tuple(file.name for pattern in _WEIGHTS for file in source.glob(pattern))
    try:
        output.absolute().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=output.absolute().parent, prefix=f".{output.name}.", suffix=".tmp"
        ) as name:
            made = Path(name) / "drafter"
            made.mkdir(mode=0o755)
            tensors = write_permuted(checkpoint, order, made)
            copy_siblings(config.path, made, weights)
            (made / config.path.name).write_bytes(fixed.raw)
            keep_mode(config.path, made / config.path.name)
            proof = prove_equal(source, made, order, target, seed)
            place_directory(made, output)
    except OSError as error:
        raise write_failed(output, error) from None
    return tensors, proof
