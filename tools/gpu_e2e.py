"""End to end with a real SGLang: serve a drafter wrongly, capture, compare, fix the config, capture again.

    python tools/gpu_e2e.py --out DIR [--incident fixtures/incident] [--engine-python PYTHON] [--cpu]

Three situations: right ids, every id one off, ids missing. For each, the engine's own accept length is taken from the
same run as the capture, and draft-eval's prediction for the served wiring stands next to it, on the same text (greedy
continuations of the target). Writes ``e2e.json`` and ``e2e.md`` (a table) to DIR; exit code 1 if a repaired config is
not aligned. On one H200 the engines of a round run at once and share the GPU: about three minutes in all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fixtures.record_live import CPU_ENVIRONMENT, CPU_FLAGS, GPU_FLAGS, with_ids  # noqa: E402
from hsforensics.flows.capture import capture_reference  # noqa: E402
from hsforensics.flows.capture_live import capture_live  # noqa: E402
from hsforensics.flows.compare import compare  # noqa: E402
from hsforensics.flows.draft_eval import draft_eval  # noqa: E402
from hsforensics.flows.fix_config import fix_config  # noqa: E402
from hsforensics.results import CaptureResult  # noqa: E402
from hsforensics.states import show_wiring  # noqa: E402

OWN_TEXT: Final = ("data_5.pt", "data_6.pt", "data_7.pt", "data_8.pt", "data_9.pt")
"""The dumps whose text the target wrote itself, greedily, after this many tokens of prompt:"""
PROMPT: Final = 40
NEW_TOKENS: Final = 80
PORTS: Final = (21500, 22500, 23500, 24500, 25500)


@dataclass
class Serving:
    """One engine run: what was asked for, served and accepted."""

    situation: str
    ids: list[int] | None
    version: str = ""
    served: str = ""
    trained: str = ""
    verdict: str = ""
    accept_measured: float | None = None
    accept_predicted: float | None = None
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class Bench:
    """Everything that a run needs."""

    incident: Path
    dumps: Path
    folder: Path
    python: Path
    flags: tuple[str, ...]
    device: str
    predicted: dict[str, float]

    def serve(self, drafter: Path, serving: Serving, port: int) -> tuple[Serving, Any]:
        """Capture with this drafter, and compare; the filled record, and compare's result."""
        start = time.monotonic()
        out = self.folder / f"capture-{serving.situation.replace(' ', '-')}"
        captured = capture_live(
            *(self.dumps, self.incident / "target", drafter, out),
            engine_python=self.python,
            engine_args=(*self.flags, "--port", str(port)),
            dtype="bf16",
            device=self.device,
            new_tokens=NEW_TOKENS,
            max_tokens=PROMPT,
        )
        compared = compare(self.dumps, out, target=self.incident / "target", drafter=drafter, device="cpu")
        wiring = show_wiring(compared.served_wiring)
        filled = replace(
            serving,
            version=captured.provenance.engine_version or "",
            served=wiring,
            trained=show_wiring(compared.trained_wiring),
            verdict=compared.verdict,
            accept_measured=_measured(captured),
            accept_predicted=self.predicted.get(wiring),
            findings=sorted({found.code for found in captured.findings} | {f.code for f in compared.findings}),
            seconds=round(time.monotonic() - start, 1),
        )
        return filled, compared


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both rounds and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--incident", type=Path, default=ROOT / "fixtures" / "incident")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--engine-python", type=Path, default=Path(sys.executable))
    parser.add_argument("--cpu", action="store_true", help="one engine at a time, with the CPU stand-ins' flags")
    given = parser.parse_args(arguments)
    if given.cpu:
        os.environ.update(CPU_ENVIRONMENT)
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        rows = run(given.incident, Path(scratch), given.engine_python, cpu=given.cpu)
    (given.out / "e2e.json").write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    (given.out / "e2e.md").write_text(table(rows), encoding="utf-8")
    print(table(rows))
    repaired = [row for row in rows if row.situation.startswith("repaired") or row.situation == "right ids"]
    sys.exit(any(row.verdict != "aligned" for row in repaired))


def run(incident: Path, folder: Path, python: Path, *, cpu: bool) -> list[Serving]:
    """Round one: the three situations. Round two: the two wrong ones, repaired by their own reports."""
    dumps = folder / "dumps"
    dumps.mkdir()
    for name in (*OWN_TEXT, "data_config.json"):
        shutil.copyfile(incident / "dumps" / name, dumps / name)
    right = json.loads((incident / "truth.json").read_text(encoding="utf-8"))["right_ids"]
    situations = {"right ids": right, "every id one off": [value + 1 for value in right], "ids missing": None}
    flags = CPU_FLAGS if cpu else GPU_FLAGS
    predicted = predict(incident, dumps, folder, right)
    bench = Bench(incident, dumps, folder, python, flags, "cpu" if cpu else "cuda", predicted)
    drafters = {name: _drafter(incident, folder / name.replace(" ", "-"), ids) for name, ids in situations.items()}
    asked = [Serving(name, ids) for name, ids in situations.items()]
    with ThreadPoolExecutor(1 if cpu else len(situations)) as pool:
        first = list(pool.map(bench.serve, drafters.values(), asked, PORTS))
        again = [Serving(f"repaired: {row.situation}", None) for row, _ in first[1:]]
        for (row, compared), repaired in zip(first[1:], again, strict=True):
            fix_config(drafters[row.situation], report=compared, write=True)
            repaired.ids = _ids_of(drafters[row.situation])
        second = list(pool.map(bench.serve, [drafters[row.situation] for row, _ in first[1:]], again, PORTS[3:]))
    return [row for row, _ in (*first, *second)]


def predict(incident: Path, dumps: Path, folder: Path, right: Sequence[int]) -> dict[str, float]:
    """draft-eval's accept length on the same text, for each wiring that the situations serve, by its printed form."""
    bank = folder / "bank"
    capture_reference(dumps, incident / "target", bank, dtype="bf16")
    trained = tuple(value + 1 for value in right)
    layers = json.loads((incident / "target" / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"]
    wirings = dict.fromkeys((trained, tuple(state + 1 for state in trained), (2, layers // 2, layers - 3)))
    result = draft_eval(incident / "drafter", incident / "target", bank, wirings=tuple(wirings))
    return {show_wiring(one.wiring): one.accept_length.value for one in result.runs if one.accept_length.value}


def _drafter(incident: Path, copy: Path, ids: Sequence[int] | None) -> Path:
    """A copy of the drafter with these ids, or without any."""
    with_ids(incident / "drafter", copy, ids or ())
    if ids is None:
        file = copy / "config.json"
        config = json.loads(file.read_text(encoding="utf-8"))
        del config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
        file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return copy


def _ids_of(drafter: Path) -> list[int] | None:
    config = json.loads((drafter / "config.json").read_text(encoding="utf-8"))
    ids: list[int] | None = config.get("eagle_config", {}).get("eagle_aux_hidden_state_layer_ids")
    return ids


def _measured(captured: CaptureResult) -> float | None:
    """The engine's own count, from the finding's evidence ``1 + D accepted drafts / S verify steps``."""
    for found in captured.findings:
        if found.code == "accept-measured":
            words = found.evidence.split()
            return 1 + int(words[2]) / int(words[6])
    return None


def table(rows: Sequence[Serving]) -> str:
    """A Markdown table."""
    heads = ("situation", "ids in the config", "served (measured)", "compare", "engine's accept length", "draft-eval's")
    lines = [heads, ("---",) * len(heads)]
    for row in rows:
        numbers = [f"{value:.2f}" if value else "" for value in (row.accept_measured, row.accept_predicted)]
        lines.append((row.situation, "none" if row.ids is None else str(row.ids), row.served, row.verdict, *numbers))
    version = f"SGLang {rows[0].version}; accept lengths count the bonus token."
    return "\n".join(["| " + " | ".join(line) + " |" for line in lines] + ["", version]) + "\n"


if __name__ == "__main__":
    main()
