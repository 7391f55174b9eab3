"""Runs one case of the live matrix: real SGLang in an environment of its own, then compare in this process."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hsforensics.capture.manifest import ManifestHeader, RequestTensors
from hsforensics.capture.sglang_flags import hook_specs
from hsforensics.capture.spool_read import SpoolReader, request_of
from hsforensics.capture.store import open_capture, write_capture
from hsforensics.flows.capture_live import capture_live
from hsforensics.flows.compare import compare
from hsforensics.models.target import load_target
from hsforensics.results import CaptureResult, CompareResult
from hsforensics.states import State, Wiring
from tests.sglang.models import LAYERS, save_drafter, save_dump, save_target, sequences, write_dump

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("HSF_SGLANG", HERE.parent.parent / ".cache")).absolute()
OLD = "0.5.12.post1"
VERSIONS = ("0.5.20", "0.5.23")

_CPU = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "SGLANG_USE_CPU_ENGINE": "1",
    "TORCHDYNAMO_DISABLE": "1",
}
_ENGINE = (
    *("--mem-fraction-static=0.1", "--max-total-tokens=2048", "--max-running-requests=4"),
    "--cuda-graph-backend-decode=disabled",
)
_PLAIN = ("--attention-backend=torch_native",)
_DRAFTING = ("--prefill-attention-backend=intel_amx", "--decode-attention-backend=intel_amx")
_TREE = ("--speculative-eagle-topk=3", "--speculative-num-draft-tokens=8")


def python_of(version: str) -> Path:
    """The interpreter that runs a version; the old one borrows the packages of 0.5.20."""
    return CACHE / f"sglang-{VERSIONS[0] if version == OLD else version}" / "bin" / "python"


def installed() -> bool:
    """Whether ``install.sh`` has run."""
    return all((CACHE / f"sglang-{version}" / ".ready").is_file() for version in (*VERSIONS, OLD))


def environment(version: str, folders: Sequence[Path] = ()) -> dict[str, str]:
    """Variables under which a version runs on a CPU, with the stand-ins on its path."""
    paths = [*folders, *([CACHE / f"sglang-{OLD}", HERE / "standins_old"] if version == OLD else []), HERE / "standins"]
    return {**_CPU, "PYTHONPATH": os.pathsep.join(map(str, paths))}


@dataclass
class Workshop:
    """Targets, dumps and drafters, made when first asked for."""

    folder: Path

    def target(self, architecture: str, *, narrow: bool = False) -> Path:
        """A tiny target of a class."""
        path = self.folder / f"{architecture}{'-narrow' * narrow}"
        return path if path.is_dir() else save_target(architecture, path, narrow=narrow)

    def dump(self, target: Path) -> Path:
        """Its training dump."""
        path = self.folder / f"{target.name}-dump"
        return path if path.is_dir() else save_dump(path, target)

    def own_dump(self, target: Path, requests: Sequence[RequestTensors]) -> Path:
        """A dump of what the engine itself computed, where a stand-in keeps it from computing what transformers does.

        (Latent attention before 0.5.13 on a CPU; ids and positions of the capture do not depend on it.)
        """
        path = self.folder / f"{target.name}-own-dump"
        if not path.is_dir():
            write_dump(path, [(one.token_ids, one.states) for one in requests])
        return path

    def drafter(self, ids: Sequence[int] | None) -> Path:
        """A drafter that asks for these ids."""
        path = self.folder / ("drafter-" + ("none" if ids is None else ".".join(map(str, ids))))
        return path if path.is_dir() else save_drafter(path, ids)


@dataclass(frozen=True)
class Outcome:
    """What one case gave: the capture's result, compare's result, and the truth from the engine's own bank."""

    captured: CaptureResult
    compared: CompareResult
    truth: Wiring


def capture_server(
    shop: Workshop,
    architecture: str,
    version: str,
    ids: Sequence[int] | None,
    *,
    algorithm: str = "EAGLE3",
    tree: bool = False,
    tp: int = 1,
    middle: bool = False,
    every_rank: bool = False,
    deferred: bool = False,
    new_tokens: int = 1,
    written: Path | None = None,
) -> Outcome:
    """The user's way: ``capture --engine sglang`` on a dump, then ``compare``.

    Args:
        shop: Makes targets, dumps and drafters.
        architecture: Of the target.
        version: Of SGLang.
        ids: For a drafter of the workshop; or
        written: a drafter's directory to serve as it is.
        algorithm: ``none`` serves without a drafter.
        tree: Draft trees instead of chains.
        tp: Tensor parallelism.
        middle: Record middle states, too.
        every_rank: Record what every rank serves.
        deferred: Let each layer's MLP leave its all-reduce to the next layer, as engines do on GPUs that can fuse.
        new_tokens: To generate for each prompt.
    """
    target = shop.target(architecture)
    dump, drafter = shop.dump(target), (written or shop.drafter(ids)) if algorithm == "EAGLE3" else None
    out = Path(tempfile.mkdtemp(dir=shop.folder)) / "capture"
    threads = {"SGLANG_CPU_OMP_THREADS_BIND": "0|1"} if tp == 2 else {}
    package = {"SGLANG_EXTERNAL_MODEL_PACKAGE": "hsf_deferred"} if deferred else {}
    with _environ(environment(version, [HERE / "deferred"] if deferred else ()) | threads | package):
        captured = capture_live(
            *(dump, target, drafter, out),
            engine_python=python_of(version),
            engine_args=(*_ENGINE, *(_DRAFTING if drafter else _PLAIN), *(_TREE if tree else ())),
            algorithm="EAGLE3" if drafter else "none",
            tp=tp,
            dtype="fp32",
            device="cpu",
            middle=middle,
            every_rank=every_rank,
            new_tokens=new_tokens,
        )
    return Outcome(captured, compare(dump, out, target=target, drafter=drafter, device="cpu"), truth_of(out))


class _environ:  # noqa: N801 (used like a function)
    """Set environment variables for a while."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    def __enter__(self) -> None:
        self.before = {name: os.environ.get(name) for name in self.values}
        os.environ.update(self.values)

    def __exit__(self, *_error: object) -> None:
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def truth_of(path: Path) -> Wiring:
    """The states that were served, from the engine's own bank alone: bit-equal, or within 1e-4 in every row."""
    capture = open_capture(path)
    wiring: list[State | None] = []
    for slot in range(capture.manifest.served):
        fitting = [set(_equal_states(capture.read(entry), slot)) for entry in capture.requests]
        common = set.intersection(*fitting)
        wiring.append(common.pop() if len(common) == 1 else None)
    return tuple(wiring)


def _equal_states(request: Any, slot: int) -> list[State]:
    served = request.served[slot].values
    scale = served.abs().max()
    return [state for state in request.states if (request.state(state) - served).abs().max() <= 1e-4 * scale]


def sweep(
    shop: Workshop, architecture: str, version: str, lists: Sequence[Sequence[int] | None]
) -> list[Outcome | str]:
    """Many lists of ids with one start: for each an outcome, or what the engine died of."""
    target = shop.target(architecture, narrow=version == OLD)
    folder = Path(tempfile.mkdtemp(dir=shop.folder))
    spool = folder / "spool"
    spool.mkdir()
    package = folder / "package"
    package.mkdir()
    (package / "hsforensics").symlink_to(HERE.parent.parent / "hsforensics")
    hooks = hook_specs(spool, LAYERS, 1 << 30, middle=True)
    for hook in hooks:
        hook["config"]["rid_prefix"] = ""
    texts = [text.tolist() for text in sequences()]
    job = folder / "job.json"
    flags = _PLAIN if version == OLD else _DRAFTING
    job.write_text(json.dumps({"sequences": texts, "ids": lists, "hooks": hooks, "flags": flags}))
    told = _run_sweep(target, version, job, package)
    reader = SpoolReader(spool)
    return [_outcome(shop, target, version, reader, texts, line) for line in told]


def _run_sweep(target: Path, version: str, job: Path, package: Path) -> list[dict[str, Any]]:
    command = [str(python_of(version)), str(HERE / "sweep.py"), str(target), str(job)]
    values = os.environ | environment(version, [package])
    done = subprocess.run(command, capture_output=True, text=True, env=values, timeout=300, check=False)
    lines = [json.loads(line[6:]) for line in done.stdout.splitlines() if line.startswith("SWEEP ")]
    assert lines, done.stdout[-1500:] + done.stderr[-3000:]
    assert {line["version"] for line in lines} == {version}
    return lines


def _outcome(
    shop: Workshop, target: Path, version: str, reader: SpoolReader, texts: Sequence[list[int]], told: dict[str, Any]
) -> Outcome | str:
    if "died" in told:
        return str(told["died"])
    requests = []
    for text in texts:
        parts = reader.take("", text, ("target",), 5)
        assert "target" in parts, reader.complaints
        requests.append(request_of(parts["target"], None))
    out = Path(tempfile.mkdtemp(dir=shop.folder)) / "capture"
    capture = write_capture(out, _header(target, version, requests[0]), requests)
    result = CaptureResult(
        *(str(out), capture.manifest.states, len(requests), sum(map(len, texts)), 0, ()),
        provenance=None,  # type: ignore[arg-type]  # nothing reads it here
    )
    dump = shop.own_dump(target, requests) if version == OLD else shop.dump(target)
    compared = compare(dump, out, target=target, drafter=shop.drafter(told["ids"]), device="cpu")
    return Outcome(result, compared, truth_of(out))


def _header(target: Path, version: str, first: RequestTensors) -> ManifestHeader:
    files = load_target(target)
    return ManifestHeader(
        kind="live",
        engine="sglang",
        engine_version=version,
        dtype=str(first.states[0].dtype).removeprefix("torch."),
        device="cpu",
        target_path=str(target),
        target_wrapper=files.wrapper_class,
        target_inner=files.inner_class,
        target_config_sha256=files.config_sha256,
        layers=files.layers,
        hidden_size=files.hidden_size,
        states=tuple(first.states),
        served=len(first.served),
    )


def joined(result: RequestTensors) -> torch.Tensor:
    """Served slots side by side: [T, n * H]."""
    return torch.cat(result.served, dim=1)
