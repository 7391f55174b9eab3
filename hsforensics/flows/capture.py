"""``capture``: run the very tokens of a dump through the target and store every state."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from hsforensics.capture.manifest import ManifestHeader, RequestTensors
from hsforensics.capture.store import Capture, write_capture
from hsforensics.capture.write import refuse_occupied
from hsforensics.dumps import DumpSet, open_dumps
from hsforensics.errors import HsfError
from hsforensics.findings import finding
from hsforensics.flows.provenance import provenance
from hsforensics.models.target import Target, load_target
from hsforensics.results import CaptureResult, DumpSource
from hsforensics.states import Finding, Sample, State

if TYPE_CHECKING:
    from torch import Tensor

    from hsforensics.capture.transformers_model import ReferenceModel

Progress: TypeAlias = Callable[[int, int], None]
"""Called with requests done and requests in all."""

_ROW_BYTES = 16  # token id and position
_ITEM_BYTES = {"bf16": 2, "fp32": 4}
_SPARE = 1.05


@dataclass
class _Tokens:
    """What is to be captured: the token ids of each readable sample, and what was wrong with the others."""

    sequences: list[Tensor] = field(default_factory=list)  # [T] int64 each
    findings: list[Finding] = field(default_factory=list)
    dtype: str | None = None

    @property
    def rows(self) -> int:
        return sum(len(token_ids) for token_ids in self.sequences)


def capture_reference(
    dumps: Path,
    target: Path,
    out: Path,
    *,
    dtype: Literal["bf16", "fp32"] = "bf16",
    device: str = "auto",
    middle: bool = False,
    max_samples: int | None = None,
    max_tokens: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> CaptureResult:
    """Compute the reference bank of a dump's own token ids with transformers, and write it as a capture.

    Args:
        dumps: Training data.
        target: Directory of the target model.
        out: The capture to write.
        dtype: dtype that the target runs in.
        device: ``auto``, or a device that torch knows.
        middle: Also store ``mid:i``, the stream inside each layer between attention and MLP.
        max_samples: Samples to capture at most.
        max_tokens: Rows of each sample to capture at most.
        force: Replace a capture at ``out``.
        progress: Told after every request.

    Returns:
        What was written; a dump file that could not be read is a finding, and the others are captured.

    Raises:
        HsfError: Among others ``nothing-compared`` when no sample could be read, ``dump-unreadable`` when token ids do
            not belong to the target, ``write-refused`` when ``out`` is occupied or the disk is too small.
    """
    from hsforensics.capture.reference import bank_states, reference_header
    from hsforensics.capture.transformers_model import load_reference

    refuse_occupied(out, force=force)
    source = open_dumps(dumps)
    files = load_target(target)
    tokens = _read_tokens(source, files, max_samples, max_tokens)
    _refuse_full_disk(out, tokens.rows, bank_states(files.layers, middle=middle), files.hidden_size, dtype)
    model = load_reference(files, dtype, device)
    header = reference_header(model, middle=middle)
    capture = write_capture(out, header, _run(model, tokens, progress, middle=middle), force=force)
    return _result(capture, tokens, source)


def _read_tokens(source: DumpSet, target: Target, max_samples: int | None, max_tokens: int | None) -> _Tokens:
    """The token ids of the first ``max_samples`` readable samples, cut to ``max_tokens``."""
    tokens = _Tokens()
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


def _refuse_full_disk(out: Path, rows: int, states: tuple[State, ...], hidden_size: int, dtype: str) -> None:
    """Compare the size of the capture with the room on the disk before any work is done."""
    needed = rows * (len(states) * hidden_size * _ITEM_BYTES[dtype] + _ROW_BYTES)
    folder = next(folder for folder in out.absolute().parents if folder.exists())
    free = shutil.disk_usage(folder).free
    if free < needed * _SPARE:
        message = f"{rows} rows of {len(states)} states need {_gigabytes(needed)}, {_gigabytes(free)} are free"
        raise HsfError("write-refused", out, message, "use --max-samples, --max-tokens, or another disk")


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"


def _run(
    model: ReferenceModel, tokens: _Tokens, progress: Progress | None, *, middle: bool
) -> Iterator[RequestTensors]:
    from hsforensics.capture.reference import reference_request

    total = len(tokens.sequences)
    for done, token_ids in enumerate(tokens.sequences, start=1):
        yield reference_request(model, token_ids, middle=middle)
        if progress:
            progress(done, total)


def _result(capture: Capture, tokens: _Tokens, source: DumpSet) -> CaptureResult:
    made: ManifestHeader = capture.manifest
    return CaptureResult(
        path=str(capture.path),
        states=made.states,
        requests=len(capture.requests),
        rows=sum(entry.rows for entry in capture.requests),
        bytes=sum(file.stat().st_size for file in capture.path.iterdir()),
        findings=tuple(tokens.findings),
        provenance=provenance(
            target_path=made.target_path,
            target_wrapper=made.target_wrapper,
            target_inner=made.target_inner,
            layers=made.layers,
            hidden_size=made.hidden_size,
            dumps=(DumpSource(str(source.path), source.producer, len(tokens.sequences), tokens.dtype),),
            capture_path=str(capture.path),
            engine=made.engine,
            engine_version=made.engine_version,
            dtype=made.dtype,
            device=made.device,
        ),
    )
