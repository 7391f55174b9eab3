"""Captures beside the one that is compared: a repeat of it, which measures its noise, and those of other ranks."""

from __future__ import annotations

from pathlib import Path

from hsforensics.capture.store import Capture, open_capture
from hsforensics.errors import HsfError
from hsforensics.flows.bank import Bank
from hsforensics.flows.fingerprint_file import is_fingerprint


def open_rank(path: Path, bank: Bank | None) -> Capture:
    """Open a capture of another rank; sums over ranks check that it fits.

    Raises:
        HsfError: ``usage``: a fingerprint, or there is nothing whose rank it could be; or it cannot be opened.
    """
    return _opened("--rank", path, bank)


def open_repeat(path: Path, bank: Bank | None, width: int | None = None) -> Capture:
    """Open a second capture of the tokens in a bank.

    Args:
        path: The capture.
        bank: What it repeats.
        width: H of what it repeats, where that is a fingerprint, whose rows are narrower.

    Raises:
        HsfError: ``usage``: a fingerprint, nothing that it could repeat, or another width or other tokens; or it cannot
            be opened.
    """
    found = _opened("--repeat", path, bank)
    assert bank is not None  # noqa: S101 (just seen to)
    wanted, got = width or bank.manifest.hidden_size, found.manifest.hidden_size
    if got != wanted:
        message = f"{path} holds states of width {got}, {bank.path} of width {wanted}"
        raise HsfError("usage", "--repeat", message, "give a second capture by the same engine")
    tokens = {entry.token_ids_sha256 for entry in bank.requests}
    if width is None and not any(entry.token_ids_sha256 in tokens for entry in found.requests):
        message = f"{path} holds no request with the tokens of one in {bank.path}"
        raise HsfError("usage", "--repeat", message, "capture the same dumps again, with the same --max-tokens")
    return found


def _opened(option: str, path: Path, bank: Bank | None) -> Capture:
    if bank is None:
        raise HsfError("usage", option, f"{path} belongs to a capture, and none is given", "name the CAPTURE as well")
    if is_fingerprint(path):
        raise HsfError("usage", option, f"{path} is a fingerprint, and the rows are needed", "give the capture itself")
    return open_capture(path)
