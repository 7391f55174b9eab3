"""A supervised engine: a child process in a session of its own, which can die without taking anybody with it.

When SGLang's scheduler fails, it kills its parent. So the engine runs under ``sglang_child``; this side
sends it orders, waits with deadlines, and at the end kills that session and nothing else.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import hsforensics
from hsforensics.errors import HsfError

LAST_LINES = 12
"""Lines of a dead engine's log that are shown."""

GRACE_S = 20.0
"""Seconds that an engine gets to shut down before it is killed."""


@dataclass
class EngineProcess:
    """An engine in a child process; a context manager that leaves no process behind.

    Attributes:
        python: The interpreter that has the engine installed.
        argv: The engine's command-line arguments.
        hooks: Specs for ``--forward-hooks``.
        folder: A private scratch directory; the log is written there.
        start_timeout_s: Seconds until the engine must be up.
        version: The engine's version, from its own process; empty until it is up.
    """

    python: Path
    argv: Sequence[str]
    hooks: Sequence[Mapping[str, Any]]
    folder: Path
    start_timeout_s: float
    version: str = ""
    _child: subprocess.Popen[bytes] | None = None
    _replies: int = -1
    _lines: deque[bytes] = field(default_factory=deque)
    _partial: bytes = b""

    @property
    def log(self) -> Path:
        """What the engine prints."""
        return self.folder / "engine.log"

    @property
    def pid(self) -> int:
        """The child's process id, which is also its session's and its group's."""
        return self._running.pid

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            raise RuntimeError("the engine was not started: use it as a context manager")
        return self._child

    def __enter__(self) -> EngineProcess:
        """Start the engine and wait until it is up.

        Raises:
            HsfError: ``engine-failed``, with its last lines.
        """
        try:
            self._spawn()
            self.version = str(self._receive(self.start_timeout_s, "start")["version"])
        except BaseException:
            self._end(0.0)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        grace = GRACE_S if kind is None else 0.0
        with suppress(OSError, ValueError):
            self._send({"order": "quit"})
        self._end(grace)

    def ask(
        self, rids: Sequence[str], input_ids: Sequence[Sequence[int]], max_new_tokens: int, timeout_s: float
    ) -> list[dict[str, Any]]:
        """Send requests at once and wait for all of them.

        Returns:
            For each request its ``output_ids``, and in ``meta`` the engine's own numbers on speculation.

        Raises:
            HsfError: ``engine-failed``: it died, refused a request, or was silent for too long.
        """
        order = {"order": "generate", "rids": rids, "input_ids": input_ids, "max_new_tokens": max_new_tokens}
        with suppress(BrokenPipeError):  # then it is dead, and receiving says so better
            self._send(order)
        message = self._receive(timeout_s, "answer")
        if message["event"] == "refused":
            raise self.failure(f"refused a request: {message['error']}"[:500])
        replies: list[dict[str, Any]] = message["replies"]
        return replies

    def failure(self, what: str) -> HsfError:
        """An error that shows what the engine printed last."""
        lines = last_lines(self.log)
        shown = "".join(f"\n    {line}" for line in lines) if lines else " nothing"
        remedy = f"mend what the engine complains about; its last lines were:{shown}"
        return HsfError("engine-failed", f"sglang ({self.python})", what, remedy)

    def _spawn(self) -> None:
        ours, theirs = os.pipe()
        self._replies = ours
        environment = {**os.environ, "PYTHONPATH": _python_path(self.folder)}
        arguments = json.dumps({"argv": list(self.argv), "hooks": list(self.hooks)})
        command = [str(self.python), "-m", "hsforensics.capture.sglang_child", arguments, str(theirs)]
        try:
            with self.log.open("wb") as log:
                self._child = subprocess.Popen(
                    *(command,),
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd=self.folder,
                    pass_fds=(theirs,),
                    start_new_session=True,
                )
        except OSError as error:
            message = f"cannot be started ({error.strerror})"
            raise HsfError("not-found", self.python, message, "give --engine-python PYTHON") from None
        finally:
            os.close(theirs)

    def _send(self, order: Mapping[str, Any]) -> None:
        pipe = self._running.stdin
        if pipe is not None:
            pipe.write(json.dumps(order).encode() + b"\n")
            pipe.flush()

    def _receive(self, timeout_s: float, purpose: str) -> dict[str, Any]:
        """The next message; the pipe ends when the child does."""
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            while not self._lines:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self.failure(f"did not {purpose} within {timeout_s:.0f} s")
                data = os.read(self._replies, 1 << 16)
                if not data:
                    raise self.failure(_ending(self._running, purpose))
                *lines, self._partial = (self._partial + data).split(b"\n")
                self._lines.extend(lines)
        message: dict[str, Any] = json.loads(self._lines.popleft())
        return message

    def _end(self, grace_s: float) -> None:
        """Wait for the child, then kill what is left of its session; nobody else is in it."""
        if self._replies >= 0:
            os.close(self._replies)
            self._replies = -1
        if self._child is None:
            return
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(grace_s)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        if self._child.stdin is not None:
            with suppress(OSError):
                self._child.stdin.close()


def _ending(child: subprocess.Popen[bytes], purpose: str) -> str:
    with suppress(subprocess.TimeoutExpired):
        child.wait(5)
    code = child.returncode
    how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
    return f"{how} before it could {purpose}"


def last_lines(log: Path, count: int = LAST_LINES) -> list[str]:
    """The last lines of a log that are not empty, without control characters and of bounded length."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - (1 << 16)))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return ["".join(char if char.isprintable() else "?" for char in line)[:300] for line in lines[-count:]]


def _python_path(folder: Path) -> str:
    """A search path that adds this package, and nothing beside it, to what the caller has."""
    only = folder / "python"
    only.mkdir(mode=0o700)
    (only / "hsforensics").symlink_to(Path(hsforensics.__file__).parent, target_is_directory=True)
    given = os.environ.get("PYTHONPATH")
    return str(only) + (os.pathsep + given if given else "")
