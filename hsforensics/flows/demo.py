"""``hsforensics demo``: the incident from belief to repair, on a small target and drafter that were really trained."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hsforensics.capture.store import open_capture
from hsforensics.errors import HsfError
from hsforensics.flows import demo_lessons as lessons
from hsforensics.flows.capture import capture_reference
from hsforensics.flows.compare import compare
from hsforensics.flows.draft_eval import draft_eval
from hsforensics.flows.fix_config import fix_config
from hsforensics.flows.fix_inputs import trained_wiring
from hsforensics.flows.incident import Incident, copy_incident, open_incident, reset_incident
from hsforensics.flows.provenance import provenance
from hsforensics.results import CompareResult, DraftEvalResult
from hsforensics.results_demo import DemoAct, DemoResult
from hsforensics.states import State

ENGINE: Final = "sglang==0.5.23"
"""The engine of the story where no recording of one is there: it serves the wrong fix without a word."""

OWN_FILES: Final = (
    "hsforensics compare DUMPS --target MODEL",
    "hsforensics capture DUMPS --engine transformers --target MODEL --out CAPTURE --max-samples 16",
    f"hsforensics compare DUMPS CAPTURE --draft DRAFTER --engine {ENGINE}",
)

_MAKE_BANK = "hsforensics capture dumps --engine transformers --target target --out bank"


@dataclass(frozen=True)
class _Stage:
    """A copy of the incident to play on, the capture whose states the drafter is fed, and the engine's version."""

    files: Incident
    bank: Path
    engine: str

    def name(self, path: Path) -> str:
        """How a command typed in the copy names a path of it."""
        return path.relative_to(self.files.path).as_posix()


def demo(incident: Path | None = None, *, keep: Path | None = None) -> DemoResult:
    """Replay the incident: believe, compare, repair a scratch copy, prove. Takes seconds; no GPU, engine or network.

    Recorded captures of a real engine are used where the incident has them; otherwise serving is predicted. Accuracies
    are measured on a bank that transformers computes here, or on the recordings where it is not installed.

    Args:
        incident: Directory of the incident's files; the packaged ones by default.
        keep: Directory to create for the copy that is played on, left as it was before the repair, so that the
            commands can be typed there; by default it is thrown away.

    Raises:
        HsfError: ``not-found`` without the files; ``write-refused`` when ``keep`` exists; ``dependency-missing``
            without transformers and without recordings.
    """
    source = open_incident(incident)
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="hsforensics-demo-") as folder:
            return _play(source, Path(folder), kept=False)
    if keep.exists():
        raise HsfError("write-refused", keep, "exists already", "give --keep a directory that does not exist")
    keep.mkdir(parents=True)
    return _play(source, keep, kept=True)


def _play(source: Incident, folder: Path, *, kept: bool) -> DemoResult:
    files = copy_incident(source, folder)
    stage = _Stage(files, _bank(files), _engine(files))
    acts = _acts(stage)
    if kept:
        reset_incident(source, files)
    origin = provenance(target_path=str(source.target), drafter_path=str(source.drafter), device="cpu")
    return DemoResult(
        incident=str(source.path),
        kept=str(folder) if kept else None,
        recorded=files.broken is not None,
        acts=tuple(acts),
        summary=lessons.summary(acts),
        next_commands=OWN_FILES,
        provenance=origin,
    )


def _acts(stage: _Stage) -> list[DemoAct]:
    files, believed = stage.files, stage.files.believed
    acts = [_trainer(files), _belief(stage, believed), _values(files)]
    evidence = _evidence(stage)
    assert isinstance(evidence.result, CompareResult)  # noqa: S101 (for the type checker)
    trained = trained_wiring(evidence.result)
    acts += [evidence, _repair(stage, evidence.result), _proof(stage, (believed, trained))]
    return [*acts, _measured(stage, files.right)] if files.right else acts


def _bank(files: Incident) -> Path:
    """A bank of all sequences where transformers can compute it, else what was recorded."""
    recorded = files.broken or files.right
    if recorded and importlib.util.find_spec("transformers") is None:
        return recorded
    capture_reference(files.dumps, files.target, files.path / "bank", device="cpu")
    return files.path / "bank"


def _engine(files: Incident) -> str:
    if files.broken is None:
        return ENGINE
    manifest = open_capture(files.broken).manifest
    return f"{manifest.engine}=={manifest.engine_version}"


def _trainer(files: Incident) -> DemoAct:
    result = draft_eval(files.drafter, files.target, files.dumps, channels=[(0, 1, 2)], device="cpu")
    return DemoAct(
        name="trainer",
        title="The number that misleads: the drafter on its own training tensors",
        commands=("hsforensics draft-eval drafter --target target --data dumps --channels 0,1,2",),
        result=result,
        lesson=lessons.trainer(result, files.trainer),
    )


def _belief(stage: _Stage, believed: tuple[State, ...]) -> DemoAct:
    result, command = _evaluate(stage, [believed])
    return DemoAct(
        name="belief",
        title="The labels believed: what the drafter does on the states that they led to",
        commands=(_MAKE_BANK, command) if stage.name(stage.bank) == "bank" else (command,),
        result=result,
        lesson=lessons.belief(result, believed),
    )


def _values(files: Incident) -> DemoAct:
    result = compare(files.dumps, target=files.target, device="cpu")
    return DemoAct(
        name="values",
        title="Values instead of labels, cheapest first: the target's files, no forward pass",
        commands=("hsforensics compare dumps --target target",),
        result=result,
        lesson=lessons.values(result),
    )


def _evidence(stage: _Stage) -> DemoAct:
    capture = stage.files.broken or stage.bank
    result, command = _compare(stage, capture)
    live = result.tier == "live"
    return DemoAct(
        name="evidence",
        title=f"Every channel against {'what the engine really served' if live else 'a bank of reference states'}",
        commands=(command,),
        result=result,
        lesson=lessons.evidence(result),
    )


def _repair(stage: _Stage, report: CompareResult) -> DemoAct:
    compared = f"{_compare_command(stage, stage.files.broken or stage.bank)} --json > report.json"
    result = fix_config(stage.files.drafter, engine=stage.engine, report=report, write=True)
    return DemoAct(
        name="repair",
        title="The repair, in a scratch copy: one line of the drafter's config",
        commands=(compared, f"hsforensics fix-config drafter --report report.json --engine {stage.engine} --write"),
        result=result,
        lesson=lessons.repair(result),
    )


def _proof(stage: _Stage, wirings: Sequence[tuple[State, ...]]) -> DemoAct:
    result, command = _evaluate(stage, wirings)
    return DemoAct(
        name="proof",
        title="The proof: the same drafter on the wrong wiring and on the right one",
        commands=(command,),
        result=result,
        lesson=lessons.proof(result),
    )


def _measured(stage: _Stage, capture: Path) -> DemoAct:
    result, command = _compare(stage, capture)
    return DemoAct(
        name="measured",
        title="And measured: a recording of the engine with the repaired config",
        commands=(command,),
        result=result,
        lesson=lessons.measured(result),
    )


def _evaluate(stage: _Stage, wirings: Sequence[tuple[State, ...]]) -> tuple[DraftEvalResult, str]:
    options = " ".join(f"--wiring {','.join(map(str, wiring))}" for wiring in wirings)
    command = f"hsforensics draft-eval drafter --target target --data {stage.name(stage.bank)} {options}"
    files = stage.files
    return draft_eval(files.drafter, files.target, stage.bank, wirings=wirings, device="cpu"), command


def _compare(stage: _Stage, capture: Path) -> tuple[CompareResult, str]:
    files, engine = stage.files, _engine_option(stage, capture)
    result = compare(files.dumps, capture, target=files.target, drafter=files.drafter, engine=engine, device="cpu")
    return result, _compare_command(stage, capture)


def _compare_command(stage: _Stage, capture: Path) -> str:
    engine = _engine_option(stage, capture)
    command = f"hsforensics compare dumps {stage.name(capture)} --target target --draft drafter"
    return f"{command} --engine {engine}" if engine else command


def _engine_option(stage: _Stage, capture: Path) -> str | None:
    """The engine to predict for; a live capture names its own."""
    return stage.engine if capture == stage.bank and stage.files.broken != capture else None
