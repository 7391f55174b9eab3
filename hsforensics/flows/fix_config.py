"""``fix-config``: make a drafter's config ask engines for exactly the trained wiring."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hsforensics.drafter.config import DrafterConfig, parse_drafter_config, predict_with, read_drafter_config
from hsforensics.drafter.edits import apply_changes, describe, diff_text
from hsforensics.drafter.output import write_copy
from hsforensics.drafter.plan import plan_changes
from hsforensics.drafter.write import replace_file
from hsforensics.errors import HsfError
from hsforensics.findings import fill
from hsforensics.flows.fix_findings import fix_findings
from hsforensics.flows.fix_inputs import (
    FixEngine,
    FixInputs,
    FixWishes,
    known_words_of,
    measured_wiring,
    resolve_inputs,
)
from hsforensics.flows.known import to_measure
from hsforensics.flows.provenance import provenance
from hsforensics.results import ConfigEdit, FixConfigResult, Provenance, ServedChange
from hsforensics.shell import quoted

if TYPE_CHECKING:
    from hsforensics.results import CompareResult
    from hsforensics.rules.rows import Method
    from hsforensics.states import State


def fix_config(
    drafter: Path,
    *,
    engine: str | tuple[str, ...] | None = None,
    architecture: str | None = None,
    layers: int | None = None,
    wiring: tuple[State, ...] | None = None,
    report: CompareResult | None = None,
    target: Path | None = None,
    place: str | None = None,
    method: Method | None = None,
    write: bool = False,
    output: Path | None = None,
) -> FixConfigResult:
    """Plan, and with ``write`` or ``output`` carry out, the edit after which engines serve the trained wiring.

    Args:
        drafter: The drafter's directory, or its ``config.json``.
        engine: ``NAME==VERSION`` to write for, or several of them; a report's live engine by default.
        architecture: The target's model class; the report's or the target's by default.
        layers: L of the target; the report's or the target's by default. Without it the top is not checked.
        wiring: The trained wiring by hand. Exactly one of ``wiring`` and ``report`` is needed.
        report: What ``compare`` found.
        target: The target's directory, for its class, L and width.
        place: Code of an SGLang to read its id rule from, instead of the tables.
        method: Kind of drafter; by default what its config says.
        write: Write the file (atomic, with a backup, read back) instead of only planning.
        output: Write the edited config into this new directory instead, and leave the drafter alone.

    Returns:
        The plan or the deed; nothing pending and no edits when the config is already right.

    Raises:
        HsfError: The command line is wrong, the evidence or the drafter is refused, no rule is known, no ids serve the
            wiring, or the file must not be written.
    """
    engines = (engine,) if isinstance(engine, str) else engine or ()
    wishes = FixWishes(report, wiring, engines, architecture, layers, target, place, method)
    return carry_out(drafter, wishes, write=write, output=output)


def carry_out(drafter: Path, wishes: FixWishes, *, write: bool = False, output: Path | None = None) -> FixConfigResult:
    """``fix_config`` with its inputs in one record.

    Raises:
        HsfError: See ``fix_config``.
    """
    config = read_drafter_config(drafter)
    report, target = wishes.report, wishes.target
    inputs = resolve_inputs(config, wishes)
    try:
        fixed, edits = _plan(config, inputs, report)
    except HsfError as error:
        remedy = fill(error.remedy, known_words_of(config.path.parent, wishes))
        raise HsfError(error.code, error.where, error.message, remedy) from None
    pending = config.raw != fixed.raw
    backup = replace_file(config.path, config.raw, fixed.raw) if write and pending else None
    copied = write_copy(config, fixed.raw, output) if output else None
    first, *others = (_served(each, config, fixed, report) for each in inputs.engines)
    written = backup is not None or copied is not None
    words = known_words_of(output or config.path.parent, wishes)
    origin = provenance(
        target_path=str(target) if target else None,
        layers=inputs.layers,
        drafter_path=str(drafter),
        drafter_config_sha256=fixed.sha256 if written else config.sha256,
        engine=inputs.engines[0].engine.name,
        engine_version=inputs.engines[0].engine.version,
    )
    return FixConfigResult(
        config_path=str(config.path),
        wiring=inputs.wiring,
        before=first.before,
        after=first.after,
        edits=edits,
        diff=diff_text(config.text, fixed.text, config.path.name),
        pending=pending and not written,
        written=written,
        backup=str(backup) if backup else None,
        findings=fix_findings(config, fixed, inputs, report, words, written=written),
        provenance=origin,
        others=tuple(others),
        output=str(copied) if copied else None,
        next_commands=_next_commands(origin, inputs.engines, words, pending=pending, written=written),
    )


def _plan(
    config: DrafterConfig, inputs: FixInputs, report: CompareResult | None
) -> tuple[DrafterConfig, tuple[ConfigEdit, ...]]:
    """The edited config, proved by asking every engine's rule again, and its edits."""
    content = tuple(
        each.serving
        for each in inputs.engines
        if measured_wiring(config, each.engine, report) == inputs.wiring  # a measurement beats the rule
    )
    servings = tuple(each.serving for each in inputs.engines)
    changes = plan_changes(config, servings, inputs.wiring, content)
    fixed = parse_drafter_config(config.path, apply_changes(config.text, changes).encode())
    for serving in servings:
        states = predict_with(serving, fixed).states
        if serving not in content and states != inputs.wiring:
            raise RuntimeError(f"the edited config makes {serving} serve {states}, not {inputs.wiring}")
    return fixed, describe(config, changes)


def _next_commands(
    origin: Provenance, engines: tuple[FixEngine, ...], words: dict[str, str], *, pending: bool, written: bool
) -> tuple[str, ...]:
    """The same command with ``--write`` while a change is pending, and the way to measure it once it is written."""
    if written:
        live = [text for each in engines for text in to_measure(str(each.engine))]
        return tuple(fill(text, words) for text in dict.fromkeys(live))
    typed = origin.command
    if not pending or "fix-config" not in typed:
        return ()
    again = [quoted(word) for word in ("hsforensics", *typed[typed.index("fix-config") :], "--write")]
    shown = [word for word in again if word is not None]
    return (" ".join(shown),) if len(shown) == len(again) else ()


def _served(each: FixEngine, config: DrafterConfig, fixed: DrafterConfig, report: CompareResult | None) -> ServedChange:
    """What a rule says of the config before and after, with what was measured of either."""
    before, after = (
        replace(predict_with(each.serving, one), measured=measured_wiring(one, each.engine, report))
        for one in (config, fixed)
    )
    return ServedChange(before, after)
