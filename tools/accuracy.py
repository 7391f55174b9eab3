"""Inject every fault into healthy pairs, singly and stacked, under noise, and write what compare said of each.

    python tools/accuracy.py [--model .cache/smollm2] [--check]

Writes ``docs/accuracy.md``; exits 1 when a fault came out green, or healthy data raised an alarm. Without the real
model only the synthetic scene is run, and nothing is written.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from faults import FAULTS, NOISES, Fault, Scene, healthy, judge, real, synthetic  # noqa: E402

from hsforensics.results import CompareResult  # noqa: E402

PAGE = ROOT / "docs" / "accuracy.md"
WORDS = {
    "named": "the injected fault is among the findings, and the verdict is not green",
    "open": "undecided without naming it: ambiguity is declared",
    "other": "not green, but for another reason than the one injected",
    "green": "aligned and without an error: a false all-clear",
}
"""Outcome of a fault -> what it means."""

WIRING = {"offset-uniform", "offset-mixed", "channel-order"}
"""Findings that say that served states are not the trained ones."""


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
        if not self.faults:
            return "green" if self.green else "alarm" if self._errors() else "open"
        if self.green:
            return "green"
        if self.names(self.faults[0]):
            return "named"
        return "open" if self.result.verdict == "undecided" and not self._errors() else "other"


def inject(scene: Scene, noise: str, faults: Sequence[Fault]) -> Outcome:
    """Break a healthy pair; a fault of one slot goes to slot 1, a second one to slot 0."""
    sides = healthy(scene, NOISES[noise])
    slots = iter((1, 0))
    for fault in faults:
        fault.inject(sides, next(slots) if fault.slots else 1)
    return Outcome(scene.name, noise, tuple(faults), judge(sides))


def stackable() -> Iterator[tuple[Fault, Fault]]:
    """Pairs of which at least one is a fault of one slot: wiring first, then slots, then what cuts whole dumps."""
    for pair in combinations(FAULTS, 2):
        one, other = sorted(pair, key=_turn)
        shapes = {"rows-short", "split-width"} & {*one.codes[:1], *other.codes[:1]}
        if (one.slots or other.slots) and len(shapes) < 2:
            yield one, other


def _turn(fault: Fault) -> int:
    return 1 if fault.slots else 0 if fault.side == "served" else 2


def single(scene: Scene, noises: Sequence[str]) -> list[Outcome]:
    """Healthy data and every fault alone, under every noise."""
    return [inject(scene, noise, faults) for noise in noises for faults in ((), *((fault,) for fault in FAULTS))]


def stacked(scene: Scene, noise: str, every: int = 1) -> list[Outcome]:
    """Every ``every``-th pair of faults, under one noise."""
    return [inject(scene, noise, pair) for number, pair in enumerate(stackable()) if number % every == 0]


def single_table(outcomes: Sequence[Outcome], noises: Sequence[str]) -> str:
    """Faults by noises, in words."""
    found = {(item.faults, item.noise): item.word for item in outcomes}
    lines = [f"| fault | {' | '.join(noises)} |", f"| --- |{' --- |' * len(noises)}"]
    for faults in ((), *((fault,) for fault in FAULTS)):
        name = f"{faults[0].name} ({faults[0].side})" if faults else "**healthy**"
        lines.append(f"| {name} | {' | '.join(found[faults, noise] for noise in noises)} |")
    return "\n".join(lines)


def stacked_line(outcomes: Sequence[Outcome]) -> str:
    """How many pairs had both, one or none of their faults named, and how many came out green."""
    counts = Counter("green" if item.green else sum(map(item.names, item.faults)) for item in outcomes)
    shown = " | ".join(str(counts[key]) for key in (2, 1, 0, "green"))
    return f"| {outcomes[0].scene} | {outcomes[0].noise} | {len(outcomes)} | {shown} |"


def wrong(outcomes: Sequence[Outcome]) -> list[str]:
    """False all-clears and false alarms, in words."""
    found = []
    for item in outcomes:
        if (item.faults and item.green) or (not item.faults and item.word == "alarm"):
            names = " + ".join(fault.name for fault in item.faults) or "healthy"
            found.append(f"{item.scene}, {item.noise}: {names}: {item.result.verdict}")
    return found


def page(scenes: Sequence[Sequence[Outcome]], pairs: Sequence[Sequence[Outcome]]) -> str:
    """The whole of ``docs/accuracy.md``."""
    noises = list(NOISES)
    lines = ["# Accuracy", "", "<!-- Generated by tools/accuracy.py (some ten minutes on one core). -->", ""]
    lines += [
        f"What `compare` says of {len(FAULTS)} faults injected into healthy pairs, singly and stacked. Noise is a",
        "round trip of the dump's channels: bf16, fp16, fp8 (e4m3, a scale for each row), int4 (a scale for each group",
        "of 32 values). The real scene holds states of SmolLM2-135M for four stretches of this project's license text",
        "(96 tokens each, bf16 on a CPU, middle states included); the synthetic one is a random residual stream.",
        "",
        "| word | meaning |",
        "| --- | --- |",
        *(f"| {word} | {meaning} |" for word, meaning in WORDS.items()),
        "",
        "For healthy data `green` is right, `open` says that noise hides the states, `alarm` would be a false alarm.",
    ]
    for outcomes in scenes:
        lines += ["", f"## {outcomes[0].scene}: one fault", "", single_table(outcomes, noises)]
    lines += ["", "## Two faults at once", ""]
    lines += [
        "Every pair of faults that can be told apart in principle (one of the two at least acts on one slot); every",
        "eighth of them on the real scene. A wrong wiring counts as named when it is called mixed instead of uniform.",
        "",
    ]
    lines += ["| scene | noise | pairs | both named | one named | none named, not green | green |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- |", *(stacked_line(outcomes) for outcomes in pairs)]
    every = [item for outcomes in (*scenes, *pairs) for item in outcomes]
    total = wrong(every)
    lines += ["", f"Of {len(every)} judgements, {len(total)} were false all-clears or false alarms."]
    lines += [f"- {item}" for item in total]
    return "\n".join(lines) + "\n"


def license_texts() -> list[str]:
    """Four stretches of a text that does not change."""
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    return [text[start : start + 900] for start in (300, 2500, 5000, 7500)]


def main() -> int:
    """Run everything; write the page unless ``--check``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=ROOT / ".cache" / "smollm2")
    parser.add_argument("--check", action="store_true", help="Write nothing.")
    chosen = parser.parse_args()
    torch.manual_seed(0)
    scenes = [synthetic()]
    if (chosen.model / "model.safetensors").exists():
        scenes.append(real(chosen.model, license_texts()))
    singles, pairs = [], []
    for scene in scenes:
        print(f"{scene.name}: single faults", file=sys.stderr, flush=True)
        singles.append(single(scene, list(NOISES)))
        for noise in ("bf16", "fp8"):
            print(f"{scene.name}: stacked faults under {noise}", file=sys.stderr, flush=True)
            pairs.append(stacked(scene, noise, every=1 if scene is scenes[0] else 8))
    text = page(singles, pairs)
    if len(scenes) > 1 and not chosen.check:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)
    failed = wrong([item for outcomes in (*singles, *pairs) for item in outcomes])
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
