"""Inject faults into a scene and have every pair judged, one after another or in several processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import torch
from faults import FAULTS, HARMLESS, RESHAPING, Fault
from scenes import NOISES, Scene, Sides, healthy, judge, load_scene, save_scene

from hsforensics.results import CompareResult

WIRING = {"offset-uniform", "offset-mixed", "channel-order"}
"""Findings that say that served states are not the trained ones."""

BY_NAME = {fault.name: fault for fault in (*FAULTS, *HARMLESS)}
"""Name -> what is injected. Names travel between processes; a fault holds functions, which cannot."""

Task: TypeAlias = tuple[str, tuple[str, ...]]
"""Name of a noise, and names of what is injected, in order."""


@dataclass(frozen=True)
class Outcome:
    """What compare said of one injection."""

    scene: str
    noise: str
    faults: tuple[Fault, ...]
    result: CompareResult

    @property
    def green(self) -> bool:
        """Aligned, without any finding of severity error."""
        return self.result.verdict == "aligned" and not self._errors()

    @property
    def harmless(self) -> bool:
        """Whether green is the right answer."""
        return not self.faults or self.faults[0] in HARMLESS

    def _errors(self) -> list[str]:
        return [item.code for item in self.result.findings if item.severity == "error"]

    def names(self, fault: Fault) -> bool:
        """Whether a finding names the fault."""
        codes = {item.code for item in self.result.findings}
        wanted = set(fault.codes)
        if len(self.faults) > 1 and wanted & WIRING:  # what is uniform alone is mixed beside a second fault
            wanted |= WIRING
        return not codes.isdisjoint(wanted)

    @property
    def word(self) -> str:
        """The outcome of a single fault, or of healthy data."""
        if self.harmless:
            return "green" if self.green else "alarm" if self._errors() else "open"
        if self.green:
            return "green"
        if self.names(self.faults[0]):
            return "named"
        return "open" if self.result.verdict == "undecided" and not self._errors() else "other"


def alone() -> list[tuple[Fault, ...]]:
    """Nothing, and everything that is injected by itself."""
    return [(), *((fault,) for fault in BY_NAME.values())]


def stackable() -> Iterator[tuple[Fault, Fault]]:
    """Pairs of which at least one is a fault of one slot: wiring first, then slots, then what cuts whole dumps."""
    for pair in combinations(FAULTS, 2):
        one, other = sorted(pair, key=_turn)
        if (one.slots or other.slots) and not {one.name, other.name} <= RESHAPING:
            yield one, other


def _turn(fault: Fault) -> int:
    return 1 if fault.slots else 0 if fault.side == "served" else 2


def task_of(noise: str, faults: Sequence[Fault]) -> Task:
    """What a process needs to know of an injection."""
    return noise, tuple(fault.name for fault in faults)


def broken(scene: Scene, noise: str, faults: Sequence[Fault]) -> Sides:
    """A healthy pair with faults; one of one slot goes to slot 1, a second one to slot 0. The scene stays whole.

    Args:
        scene: Where the pair comes from.
        noise: A key of ``NOISES``.
        faults: Applied in this order.
    """
    sides = healthy(scene, NOISES[noise])
    slots = iter((1, 0))
    for fault in faults:
        fault.inject(sides, next(slots) if fault.slots else 1)
    return sides


def inject(scene: Scene, noise: str, faults: Sequence[Fault], device: str = "cpu") -> Outcome:
    """Judge a pair as ``broken`` makes it; distances are computed on ``device``."""
    return Outcome(scene.name, noise, tuple(faults), judge(broken(scene, noise, faults), device))


def inject_all(scene: Scene, tasks: Sequence[Task], *, device: str = "cpu", jobs: int = 1) -> list[Outcome]:
    """The outcome of every task, in order; the same for any number of jobs.

    Args:
        scene: What is broken, anew for each task.
        tasks: Independent of each other.
        device: Where the distances are computed; on a GPU every process has a context of its own.
        jobs: Processes; with one, everything happens in this one.
    """
    if jobs == 1:
        with _one_thread():
            results = [_result(scene, device, task) for task in tasks]
    else:
        results = _in_processes(scene, device, tasks, jobs)
    rows = zip(tasks, results, strict=True)
    return [Outcome(scene.name, noise, _faults(names), result) for (noise, names), result in rows]


def _faults(names: Sequence[str]) -> tuple[Fault, ...]:
    return tuple(BY_NAME[name] for name in names)


def _result(scene: Scene, device: str, task: Task) -> CompareResult:
    noise, names = task
    return inject(scene, noise, _faults(names), device).result


@contextmanager
def _one_thread() -> Iterator[None]:
    """As in a worker process: sums of floats may depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# -- processes --------------------------------------------------------------------------------------------------

_held: list[tuple[Scene, str]] = []
"""In a worker process: the scene and the device that it was started with."""


def _in_processes(scene: Scene, device: str, tasks: Sequence[Task], jobs: int) -> list[CompareResult]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "scene.pt"
        save_scene(scene, file)
        fresh = get_context("spawn")  # a forked process cannot use CUDA, and may inherit locks of threads
        with ProcessPoolExecutor(jobs, mp_context=fresh, initializer=_start, initargs=(file, device)) as workers:
            return list(workers.map(_work, tasks))


def _start(file: Path, device: str) -> None:
    torch.set_num_threads(1)
    _held.append((load_scene(file), device))


def _work(task: Task) -> CompareResult:
    return _result(*_held[0], task)
