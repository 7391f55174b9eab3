"""The bandwidth bench runs anywhere, and counts the bytes that it must read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "bench_distance.py"


def test_it_runs_without_a_gpu_and_counts_the_bytes() -> None:
    small = ["--rows", "32", "--width", "64", "--states", "3", "--channels", "2", "--repeats", "1"]
    done = subprocess.run([sys.executable, str(SCRIPT), *small], capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert report["bytes_read_at_least"] == 2 * 32 * 64 * 5
    assert report["worst_relative_error"] == pytest.approx(0.0, abs=1e-3)
    assert report["runs"]["distance_tables"]["share_of_copy"] > 0
