"""How near to the memory's speed is the pass over channels and bank? Run it on a CUDA machine: one command, one answer.

    python tools/bench_distance.py

Reports the time of one pass, the bytes that it must read at least (every element of channels and bank once), the
bandwidth that this amounts to, and the bandwidth of a plain device copy (bytes read plus bytes written). Without a GPU
it runs the same at a small size on the CPU, to check that it runs at all.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hsforensics.matching.distance import distance_tables, relative_distance
from hsforensics.matching.distance_cuda import fused_tables, usable

GOAL = 0.7
CHOICES = ((256, 1), (512, 1), (512, 2), (1024, 1), (1024, 2))
"""(tile, warps) that are tried."""


def timed(work: Callable[[], object], device: str, repeats: int) -> float:
    """Median seconds of one call, after one call to warm up."""
    work()
    found = []
    for _ in range(repeats):
        if device == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            start.record()
            work()
            end.record()
            torch.cuda.synchronize()
            found.append(float(start.elapsed_time(end)) / 1e3)
        else:
            begun = time.perf_counter()
            work()
            found.append(time.perf_counter() - begun)
    return sorted(found)[len(found) // 2]


def copy_bandwidth(device: str, size: int, repeats: int) -> float:
    """Bytes read plus bytes written in a second by a device copy of ``size`` bytes."""
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    goal = torch.empty_like(source)
    seconds: float = timed(lambda: goal.copy_(source), device, repeats)
    return 2 * size / seconds


def make(count: int, rows: int, width: int, dtype: torch.dtype, device: str) -> list[Tensor]:
    """``count`` random tensors, each in an allocation of its own."""
    torch.manual_seed(count)
    return [torch.randn(rows, width, dtype=dtype, device=device) for _ in range(count)]


def worst_error(tables: list[Tensor], channels: list[Tensor], states: list[Tensor]) -> float:
    """Largest relative deviation from plain torch, over a few states."""
    found = 0.0
    for place in {0, len(states) // 2, len(states) - 1}:
        for table, values in zip(tables, channels, strict=True):
            true = relative_distance(values, states[place])
            found = max(found, float(((table[:, place] - true).abs() / true.clamp_min(1e-6)).max()))
    return found


def main() -> int:
    """Measure and print; exit 1 when the goal is missed on a GPU, or values are wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    on_gpu = torch.cuda.is_available()
    parser.add_argument("--rows", type=int, default=16384 if on_gpu else 256)
    parser.add_argument("--width", type=int, default=7168 if on_gpu else 512)
    parser.add_argument("--states", type=int, default=62 if on_gpu else 6)
    parser.add_argument("--channels", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=10)
    chosen = parser.parse_args()
    device = "cuda" if on_gpu else "cpu"
    channels = make(chosen.channels, chosen.rows, chosen.width, torch.bfloat16, device)
    states = make(chosen.states, chosen.rows, chosen.width, torch.bfloat16, device)
    must_read = 2 * chosen.rows * chosen.width * (chosen.channels + chosen.states)
    copy = copy_bandwidth(device, 1 << (32 if on_gpu else 24), chosen.repeats)
    tables = distance_tables(channels, states)
    runs = {"distance_tables": timed(lambda: distance_tables(channels, states), device, chosen.repeats)}
    if usable(channels, states):
        for tile, warps in CHOICES:
            work = lambda tile=tile, warps=warps: fused_tables(channels, states, tile, warps)  # noqa: E731
            runs[f"fused, tile {tile}, {warps} warps"] = timed(work, device, chosen.repeats)
    wrong = worst_error(tables, channels, states)
    report = {
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "torch": torch.__version__,
        "rows": chosen.rows,
        "width": chosen.width,
        "channels": chosen.channels,
        "states": chosen.states,
        "bytes_read_at_least": must_read,
        "copy_bytes_per_second": copy,
        "worst_relative_error": wrong,
        "runs": {
            name: {
                "seconds": seconds,
                "bytes_per_second": must_read / seconds,
                "share_of_copy": must_read / seconds / copy,
            }
            for name, seconds in runs.items()
        },
    }
    print(json.dumps(report, indent=2))
    best = must_read / min(runs.values()) / copy
    missed = on_gpu and runs["distance_tables"] * copy * GOAL > must_read
    print(
        f"best {best:.0%} of copy bandwidth, goal {GOAL:.0%} by default{': MISSED' if missed else ''}", file=sys.stderr
    )
    return int(missed or wrong > 1e-3)


if __name__ == "__main__":
    sys.exit(main())
