"""What every capture starts from: the token ids of a dump's samples, and room on the disk for their states."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hsforensics.capture.manifest import ManifestHeader
from hsforensics.capture.store import Capture
from hsforensics.dumps import DumpSet
from hsforensics.errors import HsfError
from hsforensics.findings import fill_findings, finding
from hsforensics.flows.known import known_words
from hsforensics.flows.provenance import provenance
from hsforensics.models.target import Target
from hsforensics.results import CaptureResult, DumpSource
from hsforensics.states import Finding, Sample

if TYPE_CHECKING:
    from torch import Tensor

Progress: TypeAlias = Callable[[int, int], None]
"""Called with requests done and requests in all, first with none done."""

_ROW_BYTES = 16  # token id and position
_SPARE = 1.05


@dataclass
class Tokens:
    """What is to be captured: the token ids of each readable sample, and what was wrong with the others.

    Attributes:
        sequences: [T] int64 each.
        findings: Unreadable files.
        dtype: dtype of the dump's channels.
    """

    sequences: list[Tensor] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    dtype: str | None = None

    @property
    def rows(self) -> int:
        """Tokens in all."""
        return sum(len(token_ids) for token_ids in self.sequences)


def read_tokens(source: DumpSet, target: Target, max_samples: int | None, max_tokens: int | None) -> Tokens:
    """The token ids of the first ``max_samples`` readable samples, cut to ``max_tokens``.

    Raises:
        HsfError: ``nothing-compared``: none is readable. ``dump-unreadable``: a token is none of the target's.
    """
    tokens = Tokens()
    for file in source.files:
        if len(tokens.sequences) == max_samples:
            break
        try:
            sample = source.read(file)
        except HsfError as error:
            tokens.findings.append(finding("file-unreadable", error.where, error.message, error.code))
            continue
        if len(sample.token_ids) == 0:
            tokens.findings.append(finding("file-unreadable", sample.name, "it holds no tokens", "0 rows"))
            continue
        _refuse_foreign_tokens(sample, target)
        tokens.sequences.append(sample.token_ids[:max_tokens].clone())
        tokens.dtype = tokens.dtype or str(sample.channels[0].values.dtype).removeprefix("torch.")
    if not tokens.sequences:
        first = tokens.findings[0]
        message = f"none of {len(tokens.findings)} samples could be read (first: {first.where}: {first.message})"
        raise HsfError("nothing-compared", source.path, message, "produce the dumps again")
    return tokens


def _refuse_foreign_tokens(sample: Sample, target: Target) -> None:
    outside = (sample.token_ids < 0) | (sample.token_ids >= target.vocab_size)
    if outside.any():
        position = int(outside.nonzero()[0])
        token = int(sample.token_ids[position])
        message = f"token id {token} at position {position} is outside the target's vocabulary of {target.vocab_size}"
        raise HsfError("dump-unreadable", sample.path, message, "wrong target? give the one that made these dumps")


def refuse_full_disk(out: Path, rows: int, tensors: int, hidden_size: int, item_bytes: int) -> None:
    """Compare the size of the capture with the room on the disk before any work is done.

    Args:
        out: The capture to write.
        rows: Tokens in all.
        tensors: [T, H] tensors for each request.
        hidden_size: H.
        item_bytes: Bytes of one value.

    Raises:
        HsfError: ``write-refused``.
    """
    needed = rows * (tensors * hidden_size * item_bytes + _ROW_BYTES)
    folder = next(folder for folder in out.absolute().parents if folder.exists())
    free = shutil.disk_usage(folder).free
    if free < needed * _SPARE:
        message = f"{rows} rows of {tensors} states need {_gigabytes(needed)}, {_gigabytes(free)} are free"
        raise HsfError("write-refused", out, message, "use --max-samples, --max-tokens, or another disk")


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"


def capture_result(
    capture: Capture, tokens: Tokens, source: DumpSet, findings: tuple[Finding, ...] = (), drafter: Path | None = None
) -> CaptureResult:
    """What was written, with the findings on the dump first and then those of the capture itself."""
    made: ManifestHeader = capture.manifest
    origin = provenance(
        target_path=made.target_path,
        target_wrapper=made.target_wrapper,
        target_inner=made.target_inner,
        layers=made.layers,
        hidden_size=made.hidden_size,
        drafter_path=str(drafter) if drafter else None,
        dumps=(DumpSource(str(source.path), source.producer, len(tokens.sequences), tokens.dtype),),
        capture_path=str(capture.path),
        served_config_sha256=made.drafter_config_sha256,
        engine=made.engine,
        engine_version=made.engine_version,
        dtype=made.dtype,
        device=made.device,
    )
    return CaptureResult(
        path=str(capture.path),
        states=made.states,
        requests=len(capture.requests),
        rows=sum(entry.rows for entry in capture.requests),
        bytes=sum(file.stat().st_size for file in capture.path.iterdir()),
        findings=fill_findings((*tokens.findings, *findings), known_words(origin)),
        provenance=origin,
    )
