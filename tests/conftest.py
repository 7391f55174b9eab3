"""What every test stands on."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports are as wide as ``COLUMNS`` says, which test runners set for their workers."""
    monkeypatch.delenv("COLUMNS", raising=False)
