"""The files of the trained incident: in a checkout ``fixtures/incident``, in an installed package ``incident``."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import hsforensics
from hsforensics.capture.store import is_capture
from hsforensics.errors import HsfError
from hsforensics.states import State

_TRUTH: Final = "truth.json"
_PARTS: Final = ("target", "drafter", "dumps", "captures")


@dataclass(frozen=True)
class Incident:
    """Where everything is, and what its makers wrote down.

    Attributes:
        path: The directory.
        target: The target model's directory.
        drafter: The drafter's; its config carries the wrong fix.
        dumps: Training dumps whose labels lie.
        believed: The wiring that the labels led to.
        trainer: (correct, positions) of each step, as the trainer counted on the dumps.
        broken: A recorded capture of an engine that serves the wrong fix, if there is one.
        right: A recorded capture of an engine that serves the trained wiring, if there is one.
    """

    path: Path
    target: Path
    drafter: Path
    dumps: Path
    believed: tuple[State, ...]
    trainer: tuple[tuple[int, int], ...]
    broken: Path | None
    right: Path | None


def open_incident(path: Path | None = None) -> Incident:
    """Find the incident's files.

    Args:
        path: Their directory; by default the installed ones, or those of the checkout that this package runs from.

    Raises:
        HsfError: ``not-found``.
    """
    folder = path or _find()
    try:
        truth = json.loads((folder / _TRUTH).read_text(encoding="utf-8"))
        believed = tuple(truth["wrong_fix"]["serves"])
        trainer = tuple((step["correct"], step["positions"]) for step in truth["trainer"]["held_out"])
    except (OSError, ValueError, LookupError, TypeError):
        remedy = "install hsforensics again, or run it in a checkout"
        raise HsfError("not-found", folder, "the incident's files are not here", remedy) from None
    target, drafter, dumps, captures = (folder / name for name in _PARTS)
    broken, right = (_if_capture(captures / name) for name in ("situation-b", "situation-a"))
    return Incident(folder, target, drafter, dumps, believed, trainer, broken, right)


def copy_incident(source: Incident, folder: Path) -> Incident:
    """A copy of the files in a directory that exists, to be changed at will."""
    for name in _PARTS:
        if (source.path / name).is_dir():
            shutil.copytree(source.path / name, folder / name, copy_function=shutil.copyfile)
    shutil.copyfile(source.path / _TRUTH, folder / _TRUTH)
    return open_incident(folder)


def reset_incident(source: Incident, copy: Incident) -> None:
    """Undo in a copy what a replay did there: the repaired config, its backup, and the bank."""
    shutil.rmtree(copy.path / "bank", ignore_errors=True)
    shutil.rmtree(copy.drafter)
    shutil.copytree(source.drafter, copy.drafter, copy_function=shutil.copyfile)


def _find() -> Path:
    package = Path(hsforensics.__file__).resolve().parent
    places = (package / "incident", package.parent / "fixtures" / "incident")
    return next((place for place in places if (place / _TRUTH).is_file()), places[0])


def _if_capture(path: Path) -> Path | None:
    return path if is_capture(path) else None
