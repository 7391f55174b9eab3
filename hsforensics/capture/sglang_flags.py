"""How SGLang must be started so that a capture is exact: flags by version, and the hook points."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from hsforensics.capture.hook_batch import RID_PREFIX
from hsforensics.errors import HsfError

Algorithm: TypeAlias = Literal["EAGLE3", "none"]
"""Speculative decoding that the engine runs: with ``none`` it feeds no drafter, and only the bank is recorded."""

FACTORY: Final = "hsforensics.capture.hook:factory"

EXACT_FLAGS: Final = ("--skip-tokenizer-init", "--disable-radix-cache", "--chunked-prefill-size", "-1")
"""Every prompt is prefilled whole, in one pass, from its token ids."""

EAGER_PREFILL: Final = (
    ((0, 5, 16), ("--cuda-graph-backend-prefill=disabled",)),  # decode graphs may stay: they run no hooks
    ((0, 0, 0), ("--disable-cuda-graph",)),
)
"""First version -> flags without which a prefill may be a graph's replay, where no layer's hook runs."""

DRAFTING: Final = (
    *("--speculative-num-steps", "3", "--speculative-eagle-topk", "1"),
    *("--speculative-num-draft-tokens", "4"),
)
"""Chain drafting, which every version and device has; a later flag of the same name overrides it."""


TP_FLAGS = ("--tp", "--tp-size", "--tensor-parallel-size")
"""SGLang's names of the tensor-parallel size."""


@dataclass(frozen=True)
class LiveOptions:
    """How to start the engine.

    Attributes:
        python: Interpreter that has SGLang installed.
        algorithm: See ``Algorithm``.
        tp: Tensor-parallel size.
        dtype: ``bf16`` or ``fp32``; ``None`` leaves it to the engine.
        device: ``cpu``, ``cuda``, ...; ``None`` leaves it to the engine.
        extra: More command-line arguments; they come last, so they win.
        middle: Also record ``mid:i``.
        every_rank: Also record what the other ranks serve.
    """

    python: Path
    algorithm: Algorithm = "EAGLE3"
    tp: int = 1
    dtype: Literal["bf16", "fp32"] | None = None
    device: str | None = None
    extra: tuple[str, ...] = ()
    middle: bool = False
    every_rank: bool = False


def other_tp(extra: Sequence[str], tp: int) -> str | None:
    """The argument that gives an engine another tensor-parallel size than ``tp``, or ``None``."""
    for place, argument in enumerate(extra):
        name, joined, value = argument.partition("=")
        if name in TP_FLAGS and (value if joined else " ".join(extra[place + 1 : place + 2])) != str(tp):
            return argument
    return None


def installed_version(python: Path) -> str:
    """The SGLang version that an interpreter finds, without importing it.

    Raises:
        HsfError: ``not-found``: no such interpreter. ``dependency-missing``: it has no SGLang.
    """
    code = (
        "import importlib.metadata as m, importlib.util as u, pathlib as p, re\n"
        "s = u.find_spec('sglang')\n"
        "if s is None: raise SystemExit(9)\n"
        "try: print(m.version('sglang'))\n"
        "except m.PackageNotFoundError:\n"
        "    t = [f.read_text() for f in p.Path(s.origin).parent.glob('*version.py')]\n"
        "    print(re.search(r\"'([0-9][^']*)'\", ' '.join(t).replace('\"', \"'\"))[1])\n"
    )
    try:
        run = subprocess.run([str(python), "-c", code], capture_output=True, text=True, timeout=120, check=False)
    except OSError as error:
        message = f"cannot be run ({error.strerror})"
        raise HsfError("not-found", python, message, "give --engine-python PYTHON") from None
    if run.returncode or not run.stdout.strip():
        message = "this interpreter has no SGLang"
        raise HsfError("dependency-missing", python, message, "give --engine-python PYTHON of the engine's environment")
    return run.stdout.split()[-1]


def engine_argv(target: Path, drafter: Path | None, options: LiveOptions, version: str) -> list[str]:
    """The engine's command line, without the hooks."""
    eager = next(flags for since, flags in EAGER_PREFILL if _numbers(version) >= since)
    argv = ["--model-path", str(target.resolve()), *EXACT_FLAGS, *eager]
    if options.tp > 1:
        argv += ["--tp-size", str(options.tp)]
    if options.dtype:
        argv += ["--dtype", {"bf16": "bfloat16", "fp32": "float32"}[options.dtype]]
    if options.device:
        argv += ["--device", options.device]
    if options.algorithm != "none" and drafter is not None:
        argv += ["--speculative-algorithm", options.algorithm]
        argv += ["--speculative-draft-model-path", str(drafter.resolve()), *DRAFTING]
    return [*argv, *options.extra]


def _numbers(version: str) -> tuple[int, ...]:
    from packaging.version import Version

    return Version(version).release[:3]


def hook_specs(
    spool: Path, layers: int, max_bytes: int, *, rank_bytes: int = 0, middle: bool = False, every_rank: bool = False
) -> list[dict[str, Any]]:
    """Specs for ``--forward-hooks``: one for each hook point, since a hook is not told which module called it.

    A pattern with ``*`` in front also finds language models inside of wrappers. The same specs are put on the drafter.
    The first rank may write ``max_bytes``; with ``every_rank``, each other one ``rank_bytes``.
    """
    points = {
        "embed": ("embed_tokens",),
        **{f"state:{i}": (f"layers.{i}.input_layernorm",) for i in range(layers)},
        f"norm:{layers}": ("norm",),
        "fc": ("input_norm", "fc"),  # a drafter that norms first is seen before the norm
    }
    if middle:
        norms = ("post_attention_layernorm", "pre_feedforward_layernorm")
        points |= {f"mid:{i}": tuple(f"layers.{i}.{norm}" for norm in norms) for i in range(layers)}
    patterns = {point: [f"{start}{name}" for name in names for start in _STARTS] for point, names in points.items()}
    patterns["model"] = ["model", "language_model.model"]
    patterns["logits"] = ["logits_processor", "*.logits_processor"]
    common = {"spool": str(spool), "rid_prefix": RID_PREFIX, "max_bytes": max_bytes}
    common |= {"every_rank": every_rank, "rank_bytes": rank_bytes}
    return [_spec(point, names, common) for point, names in patterns.items()]


_STARTS = ("model.", "*.model.")


def _spec(point: str, patterns: Sequence[str], common: dict[str, Any]) -> dict[str, Any]:
    config = {**common, "point": point}
    return {"name": f"hsf {point}", "target_modules": list(patterns), "hook_factory": FACTORY, "config": config}
