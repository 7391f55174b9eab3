"""Fixtures of the live tests; all of them are skipped, loudly, where SGLang's environments are not installed."""

from __future__ import annotations

import pytest

from tests.sglang.rig import CACHE, Workshop, installed


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Tiny targets, dumps and drafters."""
    if not installed():
        pytest.skip(f"no SGLang environments in {CACHE}: run make test-sglang")
    return Workshop(tmp_path_factory.mktemp("sglang"))
