"""Runs in an SGLang environment: one model runner in this process, many lists of layer ids, one after the other.

``python sweep.py TARGET JOB``; the job's JSON file holds ``sequences`` (token ids), ``ids`` (lists), ``hooks``
(specs for ``--forward-hooks``) and ``flags``. For each list one JSON line is printed: how many prefills ran, or what
the engine died of. The target's own class interprets the ids, exactly as when a drafter's config is read; a server
start for each list would cost ten times as much.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

with contextlib.suppress(ImportError):
    import more_kernel_names  # noqa: F401 (only on the path of old versions; first, since SGLang imports them)

FLAGS = (
    *("--device", "cpu", "--dtype", "float32"),
    *("--mem-fraction-static", "0.1", "--max-total-tokens", "16384", "--max-running-requests", "8"),
)


def main(target: str, job: dict[str, Any]) -> None:
    """Load the target once and run the job."""
    import sglang

    runner, tools = _load(["--model-path", target, *FLAGS, *job["flags"], "--forward-hooks", json.dumps(job["hooks"])])
    for ids in job["ids"]:
        _forget(runner)
        told: dict[str, Any] = {"version": sglang.__version__, "ids": ids}
        try:
            runner.model.set_eagle3_layers_to_capture(ids)
            for sequence in job["sequences"]:
                tools.extend(tools.prepare_synthetic_inputs_for_latency_test(1, len(sequence), [sequence]), runner)
            told["prefills"] = len(job["sequences"])
        except Exception as error:  # noqa: BLE001 (whatever kills a forward pass kills the server)
            told["died"] = f"{type(error).__name__}: {error}"[:200]
        sys.stdout.write(f"SWEEP {json.dumps(told)}\n")
        sys.stdout.flush()


def _load(argv: list[str]) -> tuple[Any, Any]:
    """The model runner, and the module of SGLang's own one-batch benchmark, which drives it."""
    from sglang.srt.server_args import PortArgs, prepare_server_args

    try:
        from sglang.benchmark import one_batch as tools

        args = prepare_server_args(
            [*argv, "--cuda-graph-backend-decode=disabled", "--cuda-graph-backend-prefill=disabled"]
        )
        args.resolve_once()
        _publish(args)
    except ImportError:  # before 0.5.16
        from sglang import bench_one_batch as tools

        args = prepare_server_args([*argv, "--disable-cuda-graph"])
    runner = tools.load_model(args, PortArgs.init_new(args), 0, 0)[0]
    return getattr(runner, "torch_runner", runner), tools


def _publish(args: Any) -> None:
    from sglang.srt.runtime_context import publish

    try:
        from sglang.benchmark.one_batch import _init_process_global_configs
        from sglang.srt.runtime_context import SpawnRanks, spawn_world_rank
    except ImportError:  # 0.5.20
        publish(args, role="scheduler")
        return
    rank = spawn_world_rank(args, tp_rank=0, pp_rank=0)
    publish(args, role="scheduler", ranks=SpawnRanks(world_rank=rank, gpu_id=0))
    _init_process_global_configs()


def _forget(runner: Any) -> None:
    """Empty the pools, and undo the last ids: some classes mark their layers one by one, and never unmark them."""
    runner.req_to_token_pool.clear()
    runner.token_to_kv_pool_allocator.clear()
    for module in runner.model.modules():
        if getattr(module, "_is_layer_to_capture", False):
            module._is_layer_to_capture = False


if __name__ == "__main__":
    with open(sys.argv[2]) as file:  # noqa: PTH123 (old Python styles are all this script may rely on)
        main(sys.argv[1], json.load(file))
