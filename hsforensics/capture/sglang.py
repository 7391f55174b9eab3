"""Records a live SGLang engine: replays token ids through it, and yields what its own hooks saw."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hsforensics.capture.engine_process import EngineProcess
from hsforensics.capture.hook_batch import RID_PREFIX
from hsforensics.capture.manifest import RequestTensors
from hsforensics.capture.sglang_child import SCRATCH
from hsforensics.capture.sglang_flags import (
    LiveOptions,
    engine_argv,
    hook_specs,
    installed_version,
)
from hsforensics.capture.spool_read import Part, SpoolReader, request_of

START_S = 600.0
"""Seconds that an engine gets to start; large models load for minutes."""

ANSWER_S = 600.0
"""Seconds that a batch of requests gets."""

SPOOL_S = 20.0
"""Seconds that the hooks' writing thread gets after a request was answered."""

BATCH = 4
"""Requests sent at once, at most; the engine may pack their prefills into one pass."""

BATCH_TOKENS = 4096
"""Tokens sent at once, at most (but always one request): the device holds a copy of every state of one pass."""


@dataclass(frozen=True)
class Recorded:
    """One recorded request.

    Attributes:
        tensors: Its tokens, states, served slots and ``fc`` input.
        given: What was handed to the drafter before its own norms, where it has some: [T, n * H], else ``None``.
        device: Device that the states were on.
        reply: The engine's answer: ``output_ids``, and in ``meta`` its own numbers on speculation.
    """

    tensors: RequestTensors
    given: Any
    device: str
    reply: dict[str, Any]


@dataclass
class LiveRecorder:
    """A running engine that records what is replayed through it.

    Attributes:
        engine: The engine's process.
        reader: Its spool.
        drafting: Whether a drafter is served too.
        ranks: Number of ranks that record.
        unrecorded: Numbers of the requests whose prefill no hook saw whole.
    """

    engine: EngineProcess
    reader: SpoolReader
    drafting: bool
    ranks: int = 1
    unrecorded: list[int] = field(default_factory=list)

    @property
    def version(self) -> str:
        """The engine's version, from its own process."""
        return self.engine.version

    def replay(self, sequences: Sequence[Sequence[int]], max_new_tokens: int = 1) -> Iterator[Recorded]:
        """Replay sequences of token ids and yield each that was recorded, in order.

        Args:
            sequences: Token ids of each request.
            max_new_tokens: Tokens to generate after each; more than one only to measure the accept length.

        Raises:
            HsfError: ``engine-failed``, also when no request at all was recorded.
        """
        done = 0
        for first, batch in batches(sequences):
            rids = [f"{RID_PREFIX}{first + offset:06d}" for offset in range(len(batch))]
            replies = self.engine.ask(rids, batch, max_new_tokens, ANSWER_S)
            for offset, (rid, token_ids, reply) in enumerate(zip(rids, batch, replies, strict=True)):
                recorded = self._take(rid, token_ids, reply)
                if recorded is None:
                    self.unrecorded.append(first + offset)
                else:
                    done += 1
                    yield recorded
            if not done:
                raise self.engine.failure(_silence(self.reader.complaints))
            self.reader.forget()  # whatever comes late, or was never asked for, belongs to no later request
            self._refuse_more_ranks()

    def _take(self, rid: str, token_ids: list[int], reply: dict[str, Any]) -> Recorded | None:
        others = [f"rank{rank}" for rank in range(1, self.ranks)]
        roles = ("target", *others, *(("drafter",) if self.drafting else ()))
        parts: dict[str, Part] = self.reader.take(rid, token_ids, roles, SPOOL_S)
        self._refuse_more_ranks()
        if not parts.keys() >= {"target", *others}:
            return None
        target, drafter = parts["target"], parts.get("drafter")
        given = drafter.tensors.get("fc_given") if drafter else None
        tensors = request_of(target, drafter, [parts[name] for name in others])
        return Recorded(tensors, given, target.device, reply)

    def _refuse_more_ranks(self) -> None:
        """A sum over some of the ranks would be a sum of nothing."""
        if more := sorted(rank for rank in self.reader.ranks if rank >= self.ranks):
            message = f"runs rank {more[-1]}, and {self.ranks} ranks were asked for"
            raise self.engine.failure(f"{message}: give its tensor-parallel size as --tp, not as an engine argument")


def batches(sequences: Sequence[Sequence[int]]) -> Iterator[tuple[int, list[list[int]]]]:
    """Consecutive groups of sequences within ``BATCH`` and ``BATCH_TOKENS``, each with the number of its first."""
    first, batch = 0, list[list[int]]()
    for number, sequence in enumerate(sequences):
        tokens = sum(map(len, batch)) + len(sequence)
        if batch and (len(batch) == BATCH or tokens > BATCH_TOKENS):
            yield first, batch
            first, batch = number, []
        batch.append(list(sequence))
    if batch:
        yield first, batch


def _silence(complaints: str) -> str:
    if complaints:
        return f"answered, but its hooks recorded nothing: {complaints.splitlines()[-1]}"
    return "answered, but no hook saw a whole prefill (another model structure, or prefill graphs are on)"


@contextmanager
def live_recorder(
    target: Path, drafter: Path | None, layers: int, max_bytes: int, rank_bytes: int, options: LiveOptions
) -> Iterator[LiveRecorder]:
    """Start an engine that records; on leaving, its whole session is gone, and so is the scratch directory.

    Args:
        target: The target's directory.
        drafter: The drafter's directory, or ``None``.
        layers: L of the target.
        max_bytes: Bound on everything that the hooks of the first rank may write, and
        rank_bytes: those of each other rank.
        options: How to start it.

    Raises:
        HsfError: ``not-found`` or ``dependency-missing`` for the interpreter, ``engine-failed``.
    """
    version = installed_version(options.python)
    folder = Path(tempfile.mkdtemp(prefix=SCRATCH))  # 0700
    spool = folder / "spool"
    spool.mkdir(mode=0o700)
    drafting = options.algorithm != "none" and drafter is not None
    try:
        argv = engine_argv(target, drafter, options, version)
        bounds = {"max_bytes": max_bytes, "rank_bytes": rank_bytes}
        hooks = hook_specs(spool, layers, **bounds, middle=options.middle, every_rank=options.every_rank)
        with EngineProcess(options.python, argv, hooks, folder, START_S) as engine:
            yield LiveRecorder(engine, SpoolReader(spool), drafting, options.tp if options.every_rank else 1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
