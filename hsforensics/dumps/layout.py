"""What a reader of training data is, and what a set of dumps is once its layout is known."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hsforensics.errors import HsfError
from hsforensics.states import Channel, Sample, State

if TYPE_CHECKING:
    from torch import Tensor

CODE = "dump-unreadable"
REMEDY = "produce this file again, or leave it out"

Listing: TypeAlias = Sequence[tuple[Path, tuple[str, ...]]]
"""Every directory below the dump's root with the names of its files, sorted naturally; links are not followed."""

_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class RawSample:
    """One sequence as a reader returns it: labels and tensors, before anybody claims what they are.

    Attributes:
        token_ids: [T] int64.
        labels: One for each channel.
        values: [T', H] each.
        loss_mask: [T''] int64, or ``None``.
    """

    token_ids: Tensor
    labels: tuple[str, ...]
    values: tuple[Tensor, ...]
    loss_mask: Tensor | None


@dataclass(frozen=True)
class Layout:
    """One producer's layout on disk.

    Attributes:
        producer: Name for people.
        looks_like: What the detector looks for, in words.
        find: The samples in a listing, one path each; empty when this is not the layout.
        read: One sample; raises ``HsfError`` ``dump-unreadable``.
    """

    producer: str
    looks_like: str
    find: Callable[[Listing], tuple[Path, ...]]
    read: Callable[[Path], RawSample]


@dataclass(frozen=True)
class DumpSet:
    """Training data on disk whose layout is known; samples are read one by one when asked for.

    Attributes:
        path: As given on the command line.
        producer: Name of the layout, for people.
        files: One entry for each sample, a file or a request directory, in natural order (2 before 10).
        claims: The state that each channel is said to hold, or ``None``. Claims prove nothing.
        claim_source: Where the claims come from, or ``None``.
    """

    path: Path
    producer: str
    files: tuple[Path, ...]
    claims: tuple[State, ...] | None
    claim_source: str | None
    reader: Callable[[Path], RawSample] = field(repr=False)

    def read(self, file: Path) -> Sample:
        """Read one sample; tensors are memory-mapped where that is safe.

        A channel whose rows do not fit the tokens is returned as it is: that is for the health check to say. A sample
        with another number of channels than the claims carries no claims.

        Raises:
            HsfError: ``dump-unreadable``: torn, unsafe, or of another shape than its layout promises.
        """
        raw = self.reader(file)
        claims = self.claims if self.claims and len(self.claims) == len(raw.values) else (None,) * len(raw.values)
        channels = (
            Channel(index, label, claim, values)
            for index, (label, claim, values) in enumerate(zip(raw.labels, claims, raw.values, strict=True))
        )
        return Sample(self._short(file), file, raw.token_ids, tuple(channels), raw.loss_mask)

    def claiming(self, claims: tuple[State, ...], source: str) -> DumpSet:
        """The same files under other claims."""
        return replace(self, claims=claims, claim_source=source)

    def _short(self, file: Path) -> str:
        inside = file != self.path and file.is_relative_to(self.path)
        return str(file.relative_to(self.path)) if inside else file.name


def list_files(root: Path) -> Listing:
    """Every directory at and below ``root`` with its file names; hidden directories are left out.

    Raises:
        HsfError: ``dump-unreadable``: a directory cannot be listed, so samples would go missing without a word.
    """
    found = []
    for folder, folders, files in os.walk(root, onerror=_refuse):
        folders[:] = sorted((name for name in folders if not name.startswith(".")), key=natural)
        found.append((Path(folder), tuple(sorted(files, key=natural))))
    return found


def _refuse(error: OSError) -> None:
    raise HsfError(CODE, error.filename, f"cannot be listed ({error.strerror})", "check its permissions") from None


def natural(name: str) -> list[tuple[int, str]]:
    """Sort key that reads digits as numbers: ``data_2`` before ``data_10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name)]
