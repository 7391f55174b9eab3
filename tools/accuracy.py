"""Inject every fault into healthy pairs, singly and stacked, under noise, and write what compare said of each.

    python tools/accuracy.py [--model .cache/smollm2] [--scene NAME] [--device cuda] [--check]

Writes ``docs/accuracy.md``; exits 1 when a fault came out green, or healthy data raised an alarm. With ``--scene`` one
scene is run and the others are taken from the last run; without all of them nothing is written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import torch
from pydantic import TypeAdapter

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from faults import FAULTS, HARMLESS, NOISES, RESHAPING, Fault, Scene, healthy, judge, real, synthetic  # noqa: E402

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
        if (one.slots or other.slots) and not {one.name, other.name} <= RESHAPING:
            yield one, other


def _turn(fault: Fault) -> int:
    return 1 if fault.slots else 0 if fault.side == "served" else 2


def _alone() -> list[tuple[Fault, ...]]:
    return [(), *((fault,) for fault in (*FAULTS, *HARMLESS))]


def single(scene: Scene, noises: Sequence[str]) -> list[Outcome]:
    """Healthy data and every fault alone, under every noise."""
    return [inject(scene, noise, faults) for noise in noises for faults in _alone()]


def stacked(scene: Scene, noise: str, every: int = 1) -> list[Outcome]:
    """Every ``every``-th pair of faults, under one noise."""
    return [inject(scene, noise, pair) for number, pair in enumerate(stackable()) if number % every == 0]


def single_table(outcomes: Sequence[Outcome], noises: Sequence[str]) -> str:
    """Faults by noises, in words."""
    found = {(item.faults, item.noise): item.word for item in outcomes}
    lines = [f"| fault | {' | '.join(noises)} |", f"| --- |{' --- |' * len(noises)}"]
    for faults in _alone():
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
        if (item.green and not item.harmless) or item.word == "alarm":
            names = " + ".join(fault.name for fault in item.faults) or "healthy"
            found.append(f"{item.scene}, {item.noise}: {names}: {item.result.verdict}")
    return found


@dataclass(frozen=True)
class Part:
    """What a page says of one scene; kept as JSON, so that scenes can be run one at a time."""

    name: str
    device: str
    table: str
    lines: tuple[str, ...]
    judged: int
    wrong: tuple[str, ...]
    faults: tuple[str, ...]


def part_of(scene: Scene, device: str, every: int) -> Part:
    """Run one scene: singles under every noise, every ``every``-th pair under two."""
    print(f"{scene.name}: single faults", file=sys.stderr, flush=True)
    outcomes, lines = single(scene, list(NOISES)), []
    table = single_table(outcomes, list(NOISES))
    for noise in ("bf16", "fp8"):
        print(f"{scene.name}: stacked faults under {noise}", file=sys.stderr, flush=True)
        pairs = stacked(scene, noise, every)
        lines.append(stacked_line(pairs))
        outcomes += pairs
    return Part(scene.name, device, table, tuple(lines), len(outcomes), tuple(wrong(outcomes)), fault_names())


def fault_names() -> tuple[str, ...]:
    """Names of everything that is injected, in order."""
    return tuple(fault.name for fault in (*FAULTS, *HARMLESS))


def page(parts: Sequence[Part]) -> str:
    """The whole of ``docs/accuracy.md``."""
    lines = ["# Accuracy", "", "<!-- Generated by tools/accuracy.py (some ten minutes on one core). -->", ""]
    lines += [
        f"What `compare` says of {len(FAULTS)} faults and {len(HARMLESS)} harmless differences injected into healthy",
        "pairs, singly and stacked. Noise is a round trip of the dump's channels: bf16, fp16, fp8 (e4m3, a scale for",
        "each row), int4 (a scale for each group of 32 values). The synthetic scene is a random residual stream; the",
        "others hold states of real targets for four stretches of this project's license text (96 tokens each, bf16,",
        "middle states included): SmolLM2-135M, and the trained target of `fixtures/incident`.",
        "",
        "| scene | states computed on |",
        "| --- | --- |",
        *(f"| {part.name} | {part.device} |" for part in parts),
        "",
        "| word | meaning |",
        "| --- | --- |",
        *(f"| {word} | {meaning} |" for word, meaning in WORDS.items()),
        "",
        "For healthy data `green` is right, `open` says that noise hides the states, `alarm` would be a false alarm;",
        "so it is for the harmless differences, the last lines of each table. Two ranks whose middle states were added",
        "twice are named as no known state; which transform it is, only captures of both tell (`compare --rank`).",
        "",
        ELSEWHERE,
    ]
    for part in parts:
        lines += ["", f"## {part.name}: one fault", "", part.table]
    lines += ["", "## Two faults at once", ""]
    steps = ", ".join(f"every {_ordinal(step)} on {name}" for name, step in EVERY.items())
    lines += [
        "Pairs of faults that can be told apart in principle (one of the two at least acts on one slot):",
        f"{steps}.",
        "A wrong wiring counts as named when it is called mixed instead of uniform.",
        "",
    ]
    lines += ["| scene | noise | pairs | both named | one named | none named, not green | green |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- |", *(line for part in parts for line in part.lines)]
    total = [item for part in parts for item in part.wrong]
    judged = sum(part.judged for part in parts)
    lines += ["", f"Of {judged} judgements, {len(total)} were false all-clears or false alarms."]
    lines += [f"- {item}" for item in total]
    return "\n".join(lines) + "\n"


ELSEWHERE = (
    "Tested singly elsewhere: token ids outside the vocabulary (`tokens-invalid`, needs a target: "
    "`tests/flows/test_compare_more.py`), a capture of ranks that add up (`partial-sum`: "
    "`tests/matching/hypotheses/test_table.py`), several dtypes in one set (`dtype-mixed`: "
    "`tests/flows/test_compare_more.py`), left padding and tails (`tests/matching/test_align.py`)."
)
"""Faults that this suite cannot inject, and where they are tested."""

TARGET = "incident target"
EVERY = {"synthetic stream": 2, "SmolLM2-135M": 16, TARGET: 8}
"""Scene -> of how many pairs one is judged, to bound the time."""


def _ordinal(number: int) -> str:
    return {2: "second"}.get(number, f"{number}th")


def license_texts() -> list[str]:
    """Four stretches of a text that does not change."""
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    return [text[start : start + 900] for start in (300, 2500, 5000, 7500)]


def make_scene(name: str, model: Path, device: str) -> Scene:
    """One of the scenes of ``EVERY``."""
    if name == "synthetic stream":
        return synthetic()
    path = ROOT / "fixtures" / "incident" / "target" if name == TARGET else model
    return real(path, license_texts(), name=name, device=device)


def run(name: str, model: Path, device: str, kept: Path) -> None:
    """Run one scene, and keep what the page needs of it."""
    torch.manual_seed(0)
    used = "cpu" if name == "synthetic stream" else device
    shown = torch.cuda.get_device_name() if used == "cuda" else "a CPU"
    part = part_of(make_scene(name, model, used), shown, EVERY[name])
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(asdict(part)), encoding="utf-8")


def load(kept: Path) -> Part:
    """What ``run`` kept."""
    return TypeAdapter(Part).validate_json(kept.read_text(encoding="utf-8"))


def main() -> int:
    """Run the scenes that are asked for; write the page from all that are kept, unless ``--check``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=ROOT / ".cache" / "smollm2")
    parser.add_argument("--check", action="store_true", help="Write no page.")
    parser.add_argument("--scene", action="append", choices=list(EVERY), help="Run this one only; others as kept.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="Where real states are computed.")
    parser.add_argument("--keep", type=Path, default=ROOT / ".cache" / "accuracy", help="Folder of finished scenes.")
    chosen = parser.parse_args()
    kept = {name: chosen.keep / f"{name.replace(' ', '-')}.json" for name in EVERY}
    for name in chosen.scene or EVERY:
        if name != "SmolLM2-135M" or (chosen.model / "model.safetensors").exists():
            run(name, chosen.model, chosen.device, kept[name])
    parts = [load(path) for path in kept.values() if path.exists()]
    stale = [part.name for part in parts if part.faults != fault_names()]
    if len(parts) == len(EVERY) and not stale and not chosen.check:
        PAGE.write_text(page(parts), encoding="utf-8")
    else:
        print(page(parts))
        print(f"no page written: {len(parts)} of {len(EVERY)} scenes, stale: {stale}", file=sys.stderr)
    return int(any(part.wrong for part in parts))


if __name__ == "__main__":
    sys.exit(main())
