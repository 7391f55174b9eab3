"""What a comparison needs of a capture, whether it lies in files, in memory or in a fingerprint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hsforensics.capture.manifest import ManifestHeader, RequestEntry
from hsforensics.states import Channel, State

if TYPE_CHECKING:
    from torch import Tensor


class BankRequest(Protocol):
    """One request: its token ids [T], its states [T, H] each, and what was served, on every rank that was recorded."""

    @property
    def token_ids(self) -> Tensor:
        """[T] int64."""

    @property
    def served(self) -> tuple[Channel, ...]:
        """What the engine fed to the drafter, slot by slot; empty in a reference capture."""

    @property
    def ranks(self) -> tuple[tuple[Tensor, ...], ...]:
        """What the other tensor-parallel ranks served, rank 1 first: slot by slot, each [T, H]."""

    def state(self, state: State) -> Tensor:
        """One state of the bank, [T, H]."""


class Bank(Protocol):
    """A capture, or something that answers like one."""

    @property
    def path(self) -> Path:
        """Where it lies."""

    @property
    def manifest(self) -> ManifestHeader:
        """Who made it from which target, and which states it holds."""

    @property
    def requests(self) -> Sequence[RequestEntry]:
        """Its requests, in the order they were captured."""

    def read(self, entry: RequestEntry) -> BankRequest:
        """Open one of them."""
