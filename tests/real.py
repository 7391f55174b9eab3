"""The real model of the tests that need one: fetched by ``tools/fetch_smollm2.py``, or a loud skip."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest


def smollm2() -> Path:
    """Directory of the real model; skips the test, with a warning, only when it is missing."""
    path = Path(os.environ.get("HSF_SMOLLM2", ".cache/smollm2"))
    if not (path / "model.safetensors").exists():
        reason = f"REAL MODEL MISSING at {path}: run python tools/fetch_smollm2.py {path}, or set HSF_SMOLLM2"
        warnings.warn(reason, stacklevel=2)
        pytest.skip(reason)
    return path
