"""Two GPUs: what every tensor-parallel rank of a real SGLang serves; a class that hands states on before it reduces.

    python tools/gpu_tp2.py --out DIR [--engine-python PYTHON]

Two engines at once on the same two GPUs. The incident's Llama must be aligned, with ranks that agree. A dense GLM-4 MoE
of random weights, whose MLPs leave the all-reduce to the next layer (``tests/sglang/deferred`` forces only that
decision), must serve shares that add up to the trained states. Writes ``tp2.json``; exit code 1 if either is not so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fixtures.record_live import GPU_FLAGS, with_ids  # noqa: E402
from hsforensics.errors import HsfError  # noqa: E402
from hsforensics.flows.capture_live import capture_live  # noqa: E402
from hsforensics.flows.compare import compare  # noqa: E402
from hsforensics.states import show_wiring  # noqa: E402
from tests.sglang import models  # noqa: E402

WIDE: Final = {"hidden_size": 128, "head_dim": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
"""Shapes for which SGLang's kernels are known to exist: those of the incident's target."""


@dataclass(frozen=True)
class Case:
    """One engine: what it serves, and whether its MLPs leave the all-reduce to the next layer."""

    name: str
    dumps: Path
    target: Path
    drafter: Path
    deferred: bool
    port: int


def main() -> int:
    """Run both engines and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--engine-python", type=Path, default=Path(sys.executable))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        cases = [incident(folder), late_reducer(folder)]
        with ThreadPoolExecutor(len(cases)) as pool:
            told = list(pool.map(lambda case: run(case, folder, given.engine_python), cases))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "tp2.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
    print(json.dumps(told, indent=1))
    healthy, shares = told
    right = healthy.get("verdict") == "aligned" and "ranks-disagree" not in healthy.get("capture", {})
    return int(not (right and len(shares.get("sums", [])) == len(models.TRAINED)))


def incident(folder: Path) -> Case:
    """The incident's target and drafter, with the right ids."""
    source = ROOT / "fixtures" / "incident"
    right = json.loads((source / "truth.json").read_text(encoding="utf-8"))["right_ids"]
    drafter = folder / "incident-drafter"
    with_ids(source / "drafter", drafter, right)
    return Case("Llama of the incident", source / "dumps", source / "target", drafter, False, 21500)


def late_reducer(folder: Path) -> Case:
    """A random dense GLM-4 MoE, its dump, and a drafter that asks for the states of that dump."""
    models.HIDDEN = WIDE["hidden_size"]
    models.FAMILIES["Glm4MoeForCausalLM"][1].update(WIDE)
    target = models.save_target("Glm4MoeForCausalLM", folder / "glm")
    dumps = models.save_dump(folder / "glm-dump", target)
    drafter = models.save_drafter(folder / "glm-drafter", [state - 1 for state in models.TRAINED])
    config = drafter / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | WIDE, indent=1), encoding="utf-8")
    return Case("GLM-4 MoE that reduces late", dumps, target, drafter, True, 23500)


def run(case: Case, folder: Path, python: Path) -> dict[str, Any]:
    """Capture with every rank, and compare; what was found, or the engine's last lines."""
    out = folder / f"capture-{case.port}"
    try:
        captured = capture_live(
            *(case.dumps, case.target, case.drafter, out),
            engine_python=wrapper(folder, python, case) if case.deferred else python,
            engine_args=(*GPU_FLAGS, "--port", str(case.port), "--disable-custom-all-reduce"),
            tp=2,
            every_rank=True,
            dtype="bf16",
            device="cuda",
            max_samples=4,
            max_tokens=64,
        )
    except HsfError as error:
        return {"case": case.name, "error": str(error)}
    compared = compare(case.dumps, out, target=case.target, drafter=case.drafter, device="cpu")
    sums = [note for note in compared.findings if note.code == "partial-sum" and "together hold" in note.message]
    return {
        "case": case.name,
        "version": captured.provenance.engine_version,
        "capture": {note.code: note.evidence for note in captured.findings},
        "trained": show_wiring(compared.trained_wiring),
        "served": show_wiring(compared.served_wiring),
        "verdict": compared.verdict,
        "sums": [f"{note.message}; {note.evidence}" for note in sums],
    }


def wrapper(folder: Path, python: Path, case: Case) -> Path:
    """An interpreter for one engine alone, which finds the package that defers the all-reduce."""
    script = folder / f"python-{case.port}"
    package = ROOT / "tests" / "sglang" / "deferred"
    lines = ["#!/bin/sh", f'export PYTHONPATH="{package}{os.pathsep}$PYTHONPATH"']
    lines += ["export SGLANG_EXTERNAL_MODEL_PACKAGE=hsf_deferred", f'exec "{python}" "$@"']
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    script.chmod(0o700)
    return script


if __name__ == "__main__":
    sys.exit(main())
