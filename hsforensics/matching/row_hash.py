"""Exact row hashes: equal rows, within a sample and across samples, without comparing all pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hsforensics.matching.counter import mix

if TYPE_CHECKING:
    from torch import Tensor

_TILE = 1 << 22
LEDGER_ROWS = 1 << 19
"""Rows that a ledger remembers: 16 MB or so for each channel; later samples are only looked up."""


def row_hashes(values: Tensor) -> Tensor:
    """A 64-bit hash of each row's values as fp32 bits, on every machine the same: [T, H] -> [T] int64.

    Equal rows have equal hashes; unequal ones collide with probability 2**-64 or so. -0 counts as 0.
    """
    import torch

    rows, width = values.shape
    weights = torch.from_numpy(mix(0x5EED, width).view("int64")) | 1  # [H]
    found = torch.empty(rows, dtype=torch.int64)
    tile = max(1, _TILE // max(width, 1))
    for start in range(0, rows, tile):
        bits = (values[start : start + tile].cpu().float() + 0.0).contiguous().view(torch.int32).long()
        found[start : start + tile] = (bits * weights).sum(dim=1)  # wraps around
    return found


def repeated_rows(values: Tensor, token_ids: Tensor) -> Tensor:
    """Rows equal to an earlier row that belongs to another token: [T, H], [T] -> [T] bool.

    (The embedding of a repeated token is a repeated row; that is no fault.)
    """
    import torch

    hashes = row_hashes(values)
    order = hashes.argsort(stable=True)
    ranked, tokens = hashes[order], token_ids[order]
    again = torch.zeros_like(ranked, dtype=torch.bool)
    again[1:] = (ranked[1:] == ranked[:-1]) & (tokens[1:] != tokens[:-1])
    found = torch.zeros_like(again)
    found[order] = again
    return found


@dataclass
class RowLedger:
    """Rows of one channel seen so far in all samples: finds rows that a later sample has from an earlier one."""

    _seen: dict[int, tuple[int, str]] = field(default_factory=dict)

    def stale(self, sample: str, values: Tensor, token_ids: Tensor) -> tuple[Tensor, str]:
        """Rows [T] bool that an earlier sample holds for another token, and the name of the last such sample."""
        import torch

        bad = torch.zeros(len(values), dtype=torch.bool)
        source = ""
        hashes, tokens = row_hashes(values).tolist(), token_ids.tolist()
        for row, (number, token) in enumerate(zip(hashes, tokens, strict=True)):
            earlier = self._seen.get(number)
            if earlier is not None and earlier[0] != token and earlier[1] != sample:
                bad[row], source = True, earlier[1]
        if len(self._seen) < LEDGER_ROWS:
            for number, token in zip(hashes, tokens, strict=True):
                self._seen.setdefault(number, (token, sample))
        return bad, source
