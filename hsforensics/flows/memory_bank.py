"""A capture in memory: what fingerprints become, and what experiments use instead of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hsforensics.capture.manifest import ManifestHeader, RequestEntry, token_ids_sha256
from hsforensics.matching.align_windows import Places
from hsforensics.states import Channel, State

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class FirstValues:
    """The first values of the rows of a fingerprint, [R, 4] each, for the eye: of every state, and of served slots."""

    states: Mapping[State, Tensor]
    served: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class MemoryRequest:
    """One request: ``token_ids`` [T] int64, ``states`` state -> [T, H], and the served channels [T, H].

    ``places``: where the rows lie in their sequence, for fingerprints. ``ranks``: served slots [T, H] of other ranks.
    """

    token_ids: Tensor
    states: Mapping[State, Tensor]
    served: tuple[Channel, ...] = ()
    places: Places | None = None
    ranks: tuple[tuple[Tensor, ...], ...] = ()
    first: FirstValues | None = None

    def state(self, state: State) -> Tensor:
        """One state of the bank, [T, H]."""
        return self.states[state]


@dataclass(frozen=True)
class MemoryBank:
    """Requests in memory that answer like a capture; see ``hsforensics.flows.bank``.

    ``sketched``: rows are fingerprints, chosen windows of 64 numbers each.
    """

    path: Path
    manifest: ManifestHeader
    held: Sequence[MemoryRequest]
    sketched: bool = False

    @cached_property
    def requests(self) -> tuple[RequestEntry, ...]:
        """One entry for each request; the file name is its number."""
        return tuple(
            RequestEntry(str(number), len(request.token_ids), 0, "", token_ids_sha256(request.token_ids))
            for number, request in enumerate(self.held)
        )

    def read(self, entry: RequestEntry) -> MemoryRequest:
        """The request of an entry."""
        return self.held[int(entry.file)]
