"""A small whole capture, fresh for each test."""

from pathlib import Path

import pytest

from hsforensics.capture.store import Capture, write_capture
from tests.capture import makers


@pytest.fixture
def capture(tmp_path: Path) -> Capture:
    head = makers.header(served=2)
    return write_capture(tmp_path / "cap", head, [makers.request(rows, head, seed=rows) for rows in (3, 5)])
