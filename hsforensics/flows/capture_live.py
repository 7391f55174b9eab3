"""``capture --engine sglang``: replay a dump's tokens through a live engine; store its states and what it served."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hsforensics.capture.manifest import ManifestHeader, RequestTensors, served_name, tensor_name
from hsforensics.capture.store import write_capture
from hsforensics.capture.write import refuse_occupied
from hsforensics.dumps import open_dumps
from hsforensics.errors import HsfError
from hsforensics.findings import finding
from hsforensics.flows.capture_inputs import Progress, Tokens, capture_result, read_tokens, refuse_full_disk
from hsforensics.flows.recognise import CAPTURE_LIVE_CALL, recognising
from hsforensics.matching.self_check import SelfCheck
from hsforensics.models.target import Target, load_target
from hsforensics.results import CaptureResult
from hsforensics.states import POSTNORM, Finding

if TYPE_CHECKING:
    from hsforensics.capture.sglang import LiveRecorder, Recorded
    from hsforensics.capture.sglang_flags import Algorithm

_SLOTS = 8  # served states are few; room for twice as many as any known drafter takes
_WIDEST = 4  # bytes of a value, when the engine chooses the dtype


@dataclass
class _Session:
    """A capture under way: what is replayed, and everything that is noticed on the way."""

    tokens: Tokens
    target: Target
    recorder: LiveRecorder
    new_tokens: int
    progress: Progress | None
    drafter: Path | None = None
    check: SelfCheck = field(default_factory=SelfCheck)
    replies: list[dict[str, Any]] = field(default_factory=list)

    def recorded(self) -> Iterator[Recorded]:
        """Replay everything; each request is checked against itself as it comes."""
        sequences = [token_ids.tolist() for token_ids in self.tokens.sequences]
        for done, one in enumerate(self.recorder.replay(sequences, self.new_tokens), start=1):
            _refuse_misshapen(self, one.tensors)
            fc = [value for value in (one.tensors.fc_input, one.given) if value is not None]
            self.check.add(one.tensors.served, one.tensors.states, fc, one.tensors.ranks)
            self.replies.append(one.reply)
            if self.progress:
                self.progress(done, len(sequences))
            yield one


@recognising(CAPTURE_LIVE_CALL)
def capture_live(
    dumps: Path,
    target: Path,
    drafter: Path | None,
    out: Path,
    *,
    engine_python: Path = Path(sys.executable),
    engine_args: tuple[str, ...] = (),
    algorithm: Algorithm = "EAGLE3",
    tp: int = 1,
    dtype: Literal["bf16", "fp32"] | None = None,
    device: str = "auto",
    middle: bool = False,
    every_rank: bool = False,
    new_tokens: int = 1,
    max_samples: int | None = None,
    max_tokens: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> CaptureResult:
    """Record a real SGLang engine with its own forward hooks, on the very tokens of a dump.

    The engine runs in a supervised child of its own session, with prefix cache, chunked prefill and prefill graphs
    off. Its bank, the states that it hands to the drafter, and what the drafter's ``fc`` receives come from one and the
    same pass, and are checked against each other.

    Args:
        dumps: Training data.
        target: Directory of the target model.
        drafter: Directory of the drafter; ``None`` only with ``algorithm="none"``.
        out: The capture to write.
        engine_python: Interpreter that has SGLang installed.
        engine_args: More arguments for the engine; the last of a name wins.
        algorithm: ``EAGLE3``, or ``none`` to record the bank alone.
        tp: Tensor-parallel size.
        dtype: dtype that the target runs in; ``None``: the engine's choice.
        device: ``auto``: the engine's choice.
        middle: Also store ``mid:i``.
        every_rank: Also store what the other tensor-parallel ranks serve, and ``mid:i``, which adds them up.
        new_tokens: Tokens to generate after each sample; with more than one the engine's own accept length is reported.
        max_samples: Samples to capture at most.
        max_tokens: Rows of each sample to capture at most.
        force: Replace a capture at ``out``.
        progress: Told before the engine starts, and after every request.

    Raises:
        HsfError: As ``capture_reference``; ``engine-failed`` with the engine's last lines when it does not start, dies
            or refuses a request; ``dependency-missing`` when its interpreter has no SGLang.
    """
    from hsforensics.capture.sglang import live_recorder
    from hsforensics.capture.sglang_flags import LiveOptions

    _refuse_wishes(algorithm, drafter, tp, engine_args, every_rank=every_rank)
    refuse_occupied(out, force=force)
    source = open_dumps(dumps)
    files = load_target(target)
    tokens = read_tokens(source, files, max_samples, max_tokens)
    middle = middle or every_rank
    tensors = files.layers * (2 if middle else 1) + 2 + _SLOTS * (tp if every_rank else 1)
    refuse_full_disk(out, tokens.rows, tensors, files.hidden_size, _WIDEST)
    first, other = (
        tokens.rows * count * files.hidden_size * _WIDEST * 2 + (1 << 20)
        for count in (files.layers * (2 if middle else 1) + 2 + _SLOTS, _SLOTS)
    )
    options = LiveOptions(
        engine_python, algorithm, tp, dtype, None if device == "auto" else device, engine_args, middle, every_rank
    )
    if progress:
        progress(0, len(tokens.sequences))
    with live_recorder(target, drafter, files.layers, first, other, options) as recorder:
        session = _Session(tokens, files, recorder, new_tokens, progress, drafter)
        header, requests = _headed(session)
        capture = write_capture(out, header, requests, force=force)
        findings = _findings(session, header)
    return capture_result(capture, tokens, source, tuple(findings), drafter)


def _refuse_wishes(
    algorithm: Algorithm, drafter: Path | None, tp: int, engine_args: tuple[str, ...], *, every_rank: bool
) -> None:
    from hsforensics.capture.sglang_flags import other_tp

    if algorithm != "none" and drafter is None:
        raise HsfError("usage", "--draft", f"{algorithm} serves a drafter", "add --draft DRAFTER, or --algorithm none")
    if every_rank and tp < 2:
        raise HsfError("usage", "--every-rank", f"with --tp {tp} there is one rank only", "add --tp 2 or more")
    if every_rank and (argument := other_tp(engine_args, tp)):
        message = f"{argument} gives the engine other ranks than the {tp} that are to be recorded"
        raise HsfError("usage", "--engine-arg", message, "give the tensor-parallel size as --tp alone")


def _headed(session: _Session) -> tuple[ManifestHeader, Iterator[RequestTensors]]:
    """The header, which the first request tells, and all requests."""
    stream = session.recorded()
    first = next(stream)
    header = _header(session, first)

    def requests() -> Iterator[RequestTensors]:
        for one in chain((first,), stream):
            _refuse_change(session, header, one)
            yield one.tensors

    return header, requests()


def _refuse_misshapen(session: _Session, tensors: RequestTensors) -> None:
    """What was recorded must have a row for each token, on every rank, before anything is compared."""
    shape = (len(tensors.token_ids), session.target.hidden_size)
    named = {tensor_name(state): value for state, value in tensors.states.items()}
    for rank, served in enumerate((tensors.served, *tensors.ranks)):
        named |= {served_name(slot, rank): value for slot, value in enumerate(served)}
    for name, value in named.items():
        if tuple(value.shape) != shape or not value.is_floating_point():
            got = f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
            raise session.recorder.engine.failure(f"recorded {name} as {got}, where floats {list(shape)} were due")


def _refuse_change(session: _Session, header: ManifestHeader, one: Recorded) -> None:
    states, slots = one.tensors.states, [len(served) for served in (one.tensors.served, *one.tensors.ranks)]
    if tuple(states) != header.states or slots != [header.served] * header.ranks:
        message = f"recorded {len(states)} states and {slots} served slots (by rank) in one pass, {len(header.states)}"
        raise session.recorder.engine.failure(f"{message} and {header.served} in the first")


def _header(session: _Session, first: Recorded) -> ManifestHeader:
    target, states = session.target, first.tensors.states
    if not states:
        raise session.recorder.engine.failure("served requests, but no hook saw a state (an unknown model structure)")
    return ManifestHeader(
        kind="live",
        engine="sglang",
        engine_version=session.recorder.version,
        dtype=str(next(iter(states.values())).dtype).removeprefix("torch."),
        device=first.device,
        target_path=str(target.path),
        target_wrapper=target.wrapper_class,
        target_inner=target.inner_class,
        target_config_sha256=target.config_sha256,
        layers=target.layers,
        hidden_size=target.hidden_size,
        states=tuple(states),
        served=len(first.tensors.served),
        drafter_config_sha256=_config_sha256(session.drafter),
        ranks=session.recorder.ranks,
    )


def _config_sha256(drafter: Path | None) -> str | None:
    file = drafter / "config.json" if drafter else None
    return hashlib.sha256(file.read_bytes()).hexdigest() if file and file.is_file() else None


def _findings(session: _Session, header: ManifestHeader) -> list[Finding]:
    found = session.check.findings()
    missing = [state for state in (*range(header.layers + 1), POSTNORM) if state not in header.states]
    if missing:
        message = f"no hook saw the states {', '.join(map(str, missing))}"
        found.append(finding("bank-incomplete", "bank", message, f"{len(header.states)} states were recorded"))
    if session.recorder.drafting and not header.served:
        message = "the engine handed no aux states on, so the drafter cannot have been fed any"
        found.append(finding("served-absent", "served", message, "logits processor without aux states"))
    if lost := session.recorder.unrecorded:
        message = f"{len(lost)} of {len(session.tokens.sequences)} requests were not seen as one whole prefill"
        found.append(finding("request-unrecorded", f"sample {lost[0]}", message, "hooks recorded no such pass"))
    if complaints := session.recorder.reader.complaints:
        message = "a hook had to leave something out"
        found.append(finding("hook-complained", "hooks", message, complaints.splitlines()[-1][:300]))
    return [*found, *_accept_length(session)]


def _accept_length(session: _Session) -> list[Finding]:
    """The engine's own count, when tokens were generated: tokens per verify step, bonus token included."""
    metas = [reply["meta"] for reply in session.replies if reply["meta"].get("spec_verify_ct")]
    steps = sum(meta["spec_verify_ct"] for meta in metas)
    drafts = [meta.get("spec_num_correct_drafts", meta.get("spec_accepted_drafts")) for meta in metas]
    if session.new_tokens < 2 or not steps or None in drafts:  # the first token is no verify step
        return []
    value = 1 + sum(int(count) for count in drafts) / steps
    message = f"the engine itself counts {value:.3f} tokens per verify step, bonus token included"
    return [finding("accept-measured", "engine", message, f"1 + {sum(drafts)} accepted drafts / {steps} verify steps")]
