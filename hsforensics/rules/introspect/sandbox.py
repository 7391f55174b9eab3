"""Running vetted setters in a process of its own: isolated, without site packages, short-lived, with small limits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from hsforensics.errors import HsfError
from hsforensics.rules.introspect.program import Program
from hsforensics.rules.introspect.vetting import ALLOWED_BUILTINS

_RUNNER = Path(__file__).with_name("runner.py")
_SECONDS = 60
_REMEDY = "use the tables (leave --introspect out), or measure with a live capture"


def run_cases(programs: dict[str, Program], cases: list[dict[str, Any]], origin: str) -> list[dict[str, Any]]:
    """Run hooks on stub objects.

    Args:
        programs: Name -> program, see ``build_program``.
        cases: Each has ``program``, ``root`` (a class key), ``hook``, ``layers`` and ``ids`` (a list, or ``None``).
        origin: Where the code comes from, for messages.

    Returns:
        For each case ``lists`` (class key -> indices) and ``flags`` (layers marked), or ``error`` and ``text``.

    Raises:
        HsfError: ``engine-unreadable`` when the process dies, hangs, or says something else than JSON.
    """
    job = json.dumps({"programs": programs, "cases": cases, "allowed": ALLOWED_BUILTINS})
    command = [sys.executable, "-I", "-S", "-B", str(_RUNNER)]
    try:
        done = subprocess.run(
            command, input=job, capture_output=True, text=True, timeout=_SECONDS, env={}, cwd="/", check=False
        )
        found: list[dict[str, Any]] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        message = f"its setters did not end within {_SECONDS} s"
        raise HsfError("engine-unreadable", origin, message, _REMEDY) from None
    except ValueError:
        raise HsfError("engine-unreadable", origin, "its setters could not be run on stubs", _REMEDY) from None
    return found
