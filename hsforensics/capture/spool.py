"""The spool: where hooks in an engine put what they saw, one file for each request and role, whole or absent.

A thread writes, so that the forward pass never waits for the device or the disk: the hook records an event, and the
thread waits for it. Everything is bounded: the queue, and the bytes on disk. Torch and the standard library only;
safetensors is imported when the first file is written.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hsforensics.capture.hook_batch import Piece

SUFFIX = ".part.safetensors"
COMPLAINTS = "complaints.txt"
_QUEUE = 64  # passes that may wait for the disk; more are dropped, and the reader of the spool is told
_EXIT_S = 5.0  # how long an engine that ends by itself may be held up by what is still to be written
_MODE = 0o600


@dataclass(frozen=True)
class SpoolPart:
    """One forward pass to be written.

    Attributes:
        role: ``target``, ``drafter``, or ``rank1``, ... for the target on another rank.
        pieces: Its requests and their rows.
        token_ids: [N] or longer, packed; likewise
        positions: .
        tensors: Name -> [N, width], packed; clones that nobody else writes to.
    """

    role: str
    pieces: tuple[Piece, ...]
    token_ids: torch.Tensor
    positions: torch.Tensor
    tensors: dict[str, torch.Tensor]


class Spool:
    """The writing end, inside the engine's process.

    Attributes:
        folder: The directory; it must exist, and be private to its owner.
        left: Bytes that may still be written.
    """

    def __init__(self, folder: str, max_bytes: int) -> None:
        self.folder = Path(folder)
        self.left = max_bytes
        self._count = 0
        self._queue: queue.Queue[tuple[SpoolPart, Any]] = queue.Queue(_QUEUE)
        threading.Thread(target=self._work, name="hsforensics-spool", daemon=True).start()
        atexit.register(self.drain, _EXIT_S)

    def drain(self, timeout_s: float) -> None:
        """Wait until everything queued is on the disk, or the time is up."""
        deadline = time.monotonic() + timeout_s
        while self._queue.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.01)

    def put(self, part: SpoolPart) -> None:
        """Queue a pass; returns at once. Dropped with a complaint when the queue or the byte bound is full."""
        size = sum(value.numel() * value.element_size() for value in part.tensors.values())
        if size > self.left:
            self.complain(f"a pass of {size} bytes was dropped: only {self.left} more may be written")
            return
        self.left -= size
        try:
            self._queue.put_nowait((part, _event(part.token_ids)))
        except queue.Full:
            self.complain("a pass was dropped: the disk is slower than the engine")

    def complain(self, what: str) -> None:
        """Leave a message, with the traceback if there is one, for the reader of the spool; never raises."""
        text = what + "\n" + (traceback.format_exc() if traceback.format_exc(0).strip() != "NoneType: None" else "")
        try:
            descriptor = os.open(self.folder / COMPLAINTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE)
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
        except OSError:
            pass

    def _work(self) -> None:
        while True:
            part, event = self._queue.get()
            try:
                if event is not None:
                    event.synchronize()
                for piece in part.pieces:
                    self._write(part, piece)
            except Exception:  # noqa: BLE001 (the thread must live on, and the engine must not notice)
                self.complain("a request could not be written")
            finally:
                self._queue.task_done()

    def _write(self, part: SpoolPart, piece: Piece) -> None:
        from safetensors.torch import save

        named = {"token_ids": part.token_ids, "positions": part.positions, **part.tensors}
        rows = {name: value[piece.start : piece.stop].cpu().contiguous() for name, value in named.items()}
        metadata = {"hsforensics": json.dumps({"rid": piece.rid, "device": str(part.token_ids.device)})}
        self._count += 1
        name = f"{part.role}-{os.getpid()}-{self._count:06d}{SUFFIX}"
        write_whole(self.folder / name, save(rows, metadata))


def write_whole(path: Path, data: bytes) -> None:
    """Write a private file that is whole or absent: under another name first, then renamed."""
    waiting = path.with_name(f"{path.name}.unfinished")
    descriptor = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        waiting.rename(path)
    except BaseException:
        waiting.unlink(missing_ok=True)
        raise


def _event(tensor: torch.Tensor) -> Any:
    """A mark on the device's stream that the clones before it are done; ``None`` on the CPU."""
    if not tensor.is_cuda:
        return None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(tensor.device))
    return event
