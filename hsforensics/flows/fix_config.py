"""``fix-config``: make a drafter's config ask one engine version for exactly the trained wiring."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hsforensics.drafter.config import DrafterConfig, parse_drafter_config, predict, read_drafter_config
from hsforensics.drafter.edits import Change, apply_changes, count_changes, describe, diff_text, ids_changes
from hsforensics.drafter.write import replace_file
from hsforensics.flows.fix_findings import fix_findings
from hsforensics.flows.fix_inputs import FixInputs, measured_wiring, resolve_inputs
from hsforensics.flows.provenance import provenance
from hsforensics.results import FixConfigResult, Prediction
from hsforensics.rules.explain import explain_ids
from hsforensics.rules.inverse import ids_for
from hsforensics.rules.lookup import find_reading

if TYPE_CHECKING:
    from hsforensics.results import CompareResult
    from hsforensics.states import State


def fix_config(
    drafter: Path,
    *,
    engine: str | None = None,
    architecture: str | None = None,
    layers: int | None = None,
    wiring: tuple[State, ...] | None = None,
    report: CompareResult | None = None,
    target: Path | None = None,
    write: bool = False,
) -> FixConfigResult:
    """Plan, and with ``write`` carry out, the edit after which an engine serves the trained wiring.

    Args:
        drafter: The drafter's directory, or its ``config.json``.
        engine: ``NAME==VERSION`` to write for; a report's live engine by default.
        architecture: The target's model class; the report's or the target's by default.
        layers: L of the target; the report's or the target's by default. Without it the top is not checked.
        wiring: The trained wiring by hand. Exactly one of ``wiring`` and ``report`` is needed.
        report: What ``compare`` found.
        target: The target's directory, for its class, L and width.
        write: Write the file (atomic, with a backup, read back) instead of only planning.

    Returns:
        The plan or the deed; nothing pending and no edits when the config is already right.

    Raises:
        HsfError: The command line is wrong, the evidence or the drafter is refused, no rule is known, no ids serve the
            wiring, or the file must not be written.
    """
    config = read_drafter_config(drafter)
    inputs = resolve_inputs(
        config,
        report=report,
        wiring=wiring,
        engine=engine,
        architecture=architecture,
        layers=layers,
        target=target,
    )
    before = _predict(config, inputs)
    right = inputs.wiring in (measured_wiring(config, inputs, report), before.states)  # a measurement beats the rule
    changes = _changes(config, inputs, right=right)
    fixed = parse_drafter_config(config.path, apply_changes(config.text, changes).encode())
    after = _predict(fixed, inputs)
    if not right and after.states != inputs.wiring:
        raise RuntimeError(f"the edited config serves {after.states}, not {inputs.wiring}")
    written = write and bool(changes)
    backup = replace_file(config.path, config.raw, fixed.raw) if written else None
    return FixConfigResult(
        config_path=str(config.path),
        wiring=inputs.wiring,
        before=before,
        after=after,
        edits=describe(config, changes),
        diff=diff_text(config.text, fixed.text, config.path.name),
        pending=bool(changes) and not written,
        written=written,
        backup=str(backup) if backup else None,
        findings=fix_findings(config, inputs, report, before, after, edited=bool(changes)),
        provenance=provenance(
            target_path=str(target) if target else None,
            layers=inputs.layers,
            drafter_path=str(drafter),
            drafter_config_sha256=fixed.sha256 if written else config.sha256,
            engine=inputs.engine.name,
            engine_version=inputs.engine.version,
        ),
    )


def _predict(config: DrafterConfig, inputs: FixInputs) -> Prediction:
    return predict(config, inputs.engine.name, inputs.engine.version, inputs.architecture, inputs.layers)


def _changes(config: DrafterConfig, inputs: FixInputs, *, right: bool) -> tuple[Change, ...]:
    """What must change: nothing but a wrong count when the right states are served already."""
    reading = find_reading(inputs.engine.name, inputs.engine.version)
    count = count_changes(config, reading, len(inputs.wiring))
    if right:
        return count
    ids = ids_for(inputs.wiring, inputs.engine.name, inputs.engine.version, inputs.architecture, inputs.layers)
    numbers = tuple(state for state in inputs.wiring if isinstance(state, int))
    reason = explain_ids(ids, numbers, inputs.engine, inputs.architecture, inputs.layers)
    return (*ids_changes(config, reading, ids, reason), *count)
