"""``capture``: run the very tokens of a dump through the target and store every state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hsforensics.capture.manifest import RequestTensors
from hsforensics.capture.store import write_capture
from hsforensics.capture.write import refuse_occupied
from hsforensics.dumps import open_dumps
from hsforensics.flows.capture_inputs import Progress, Tokens, capture_result, read_tokens, refuse_full_disk
from hsforensics.flows.recognise import CAPTURE_CALL, recognising
from hsforensics.models.target import load_target
from hsforensics.results import CaptureResult

if TYPE_CHECKING:
    from hsforensics.capture.transformers_model import ReferenceModel

_ITEM_BYTES = {"bf16": 2, "fp32": 4}


@recognising(CAPTURE_CALL)
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
        progress: Told before the model is loaded, and after every request.

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
    tokens = read_tokens(source, files, max_samples, max_tokens)
    states = len(bank_states(files.layers, middle=middle))
    refuse_full_disk(out, tokens.rows, states, files.hidden_size, _ITEM_BYTES[dtype])
    if progress:
        progress(0, len(tokens.sequences))
    model = load_reference(files, dtype, device)
    header = reference_header(model, middle=middle)
    capture = write_capture(out, header, _run(model, tokens, progress, middle=middle), force=force)
    return capture_result(capture, tokens, source)


def _run(model: ReferenceModel, tokens: Tokens, progress: Progress | None, *, middle: bool) -> Iterator[RequestTensors]:
    from hsforensics.capture.reference import reference_request

    total = len(tokens.sequences)
    for done, token_ids in enumerate(tokens.sequences, start=1):
        yield reference_request(model, token_ids, middle=middle)
        if progress:
            progress(done, total)
