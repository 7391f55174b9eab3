"""A channel that is the embedding of the neighbouring tokens: ids shifted by one against the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hsforensics.findings import finding
from hsforensics.flows.channel_log import Evidence
from hsforensics.matching.cheap import embedding_residual
from hsforensics.matching.hypotheses.case import Explanation
from hsforensics.models.target import Target
from hsforensics.states import Sample

if TYPE_CHECKING:
    from torch import Tensor

LAGS = {-1: "next", 1: "previous"}
"""Row t holds token ``t - lag``; in words, whose embedding a row then holds."""

_SAMPLES = 4
_LEAST_ROWS = 4


def known_tokens(token_ids: Tensor, vocab_size: int) -> Tensor:
    """Tokens that have an embedding row: [T] int64 -> [T] bool."""
    known: Tensor = (token_ids >= 0) & (token_ids < vocab_size)
    return known


def lagged_embedding(item: Evidence, samples: Sequence[Sample], target: Target) -> Evidence:
    """The same evidence, explained as the embedding of the tokens one row earlier or later, if it is that.

    Args:
        item: Evidence of one channel from the target's files alone.
        samples: The samples it comes from.
        target: Holds the embedding.
    """
    if item.match.identity != "ambiguous" or 0 not in item.match.excluded:
        return item
    for lag, words in LAGS.items():
        found = [part for sample in samples[:_SAMPLES] if (part := _residual(sample, item.index, lag, target))]
        if found and all(residual <= limit for residual, limit in found):
            worst = max(residual for residual, _ in found)
            message = f"{item.label} holds the embedding of the {words} token (token lag {lag:+d})"
            evidence = f"relative residual {worst:.3g} to the embedding rows shifted by one, at rounding level"
            note = finding("rows-lagged", item.label, message, evidence)
            known = Explanation(("rows-lagged",), 0, f"the embedding of the {words} token", worst, 1.0, lag=lag)
            return replace(item, explanation=known, findings=(*item.findings, note))
    return item


def _residual(sample: Sample, index: int, lag: int, target: Target) -> tuple[float, float] | None:
    values, ids = sample.channels[index].values, sample.token_ids
    if values.shape != (len(ids), target.hidden_size) or len(ids) <= _LEAST_ROWS:
        return None
    values, ids = (values[lag:], ids[:-lag]) if lag > 0 else (values[:lag], ids[-lag:])
    known = known_tokens(ids, target.vocab_size)
    if int(known.sum()) < _LEAST_ROWS:
        return None
    return embedding_residual(values[known], target.embedding_rows(ids[known]))
