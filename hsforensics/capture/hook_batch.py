"""Which requests does a forward pass of SGLang hold, and in which rows? Standard library only (see ``hook``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

RID_PREFIX = "hsf-"
"""Start of the ids of requests that this package sends."""

HEALTH_CHECK = "HEALTH_CHECK"
"""Start of the ids of SGLang's own health probes."""


@dataclass(frozen=True)
class Piece:
    """One request in a packed prefill: its id and its rows."""

    rid: str
    start: int
    stop: int


def pieces_of(batch: Any, rid_prefix: str) -> list[Piece]:
    """The whole prefills in a batch that were asked for; none when the pass is anything else than a prefill.

    Left out: decode and verify passes, requests with a cached or already computed prefix, health probes and warm-ups
    (their ids do not start with ``rid_prefix``).

    Args:
        batch: SGLang's ``ForwardBatch``, or ``None``.
        rid_prefix: Start of the ids of the requests to record.
    """
    lengths = getattr(batch, "extend_seq_lens_cpu", None)
    if batch is None or lengths is None or getattr(batch.forward_mode, "name", "") != "EXTEND":
        return []
    prefixes = getattr(batch, "extend_prefix_lens_cpu", None) or [0] * len(lengths)
    rids = getattr(batch, "rids", None) or [""] * len(lengths)  # made-up batches and older versions name no requests
    pieces, start = [], 0
    for rid, length, prefix in zip(rids, lengths, prefixes, strict=True):
        stop = start + int(length)
        wanted = str(rid).startswith(rid_prefix) and not str(rid).startswith(HEALTH_CHECK)
        if wanted and int(prefix) == 0 and stop > start:
            pieces.append(Piece(str(rid), start, stop))
        start = stop
    return pieces
