"""Runs inside the engine's own Python, in a session of its own: starts an SGLang engine and sends it requests.

``python -m hsforensics.capture.sglang_child ARGUMENTS_JSON REPLY_FD``. Orders come as JSON lines on stdin, answers go
as JSON lines to the descriptor. When stdin ends without the order to quit, the parent is dead: the whole session ends.
The engine's package is all that is imported here, and what it prints goes to its log.
"""

from __future__ import annotations

import inspect
import json
import os
import queue
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final

SCRATCH: Final = "hsforensics-live-"
"""Start of the name of the scratch directory that an engine runs in."""


def main(arguments: list[str]) -> None:
    """Start the engine, say so, and answer orders until told to quit."""
    given, descriptor = json.loads(arguments[0]), int(arguments[1])
    orders: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    with os.fdopen(descriptor, "w") as answers:
        engine = _start(given["argv"], given["hooks"])
        _say(answers, event="ready", version=_version())
        while (order := orders.get()).get("order") != "quit":
            _say(answers, **_answer(engine, order))
        engine.shutdown()


def _listen(orders: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        order = json.loads(line)
        orders.put(order)
        if order["order"] == "quit":
            return
    if Path.cwd().name.startswith(SCRATCH):
        shutil.rmtree(Path.cwd(), ignore_errors=True)  # people's tokens: the parent cannot remove them any more
    os.killpg(0, signal.SIGKILL)  # this session holds nothing but the engine


def _version() -> str:
    import sglang

    return str(sglang.__version__)


def _start(argv: list[str], hooks: list[dict[str, Any]]) -> Any:
    from sglang.srt.entrypoints.engine import Engine
    from sglang.srt.server_args import prepare_server_args

    if not _names_requests(Engine):
        for hook in hooks:
            hook["config"]["rid_prefix"] = ""
    return Engine(server_args=prepare_server_args([*argv, "--forward-hooks", json.dumps(hooks)]))


def _names_requests(engine: Any) -> bool:
    """Whether this version lets the caller choose request ids; older ones make up their own."""
    return "rid" in inspect.signature(engine.generate).parameters


def _answer(engine: Any, order: dict[str, Any]) -> dict[str, Any]:
    sampling = {"temperature": 0, "max_new_tokens": order["max_new_tokens"], "ignore_eos": True}
    rids = {"rid": order["rids"]} if _names_requests(engine) else {}
    try:
        made = engine.generate(input_ids=order["input_ids"], sampling_params=sampling, **rids)
    except Exception as error:  # noqa: BLE001 (whatever it is, the parent must hear of it)
        return {"event": "refused", "error": f"{type(error).__name__}: {error}"}
    replies = [{"output_ids": one.get("output_ids"), "meta": _spoken(one.get("meta_info", {}))} for one in made]
    return {"event": "answered", "replies": replies}


def _spoken(meta: dict[str, Any]) -> dict[str, Any]:
    """The engine's own numbers on speculation, and why the request ended."""
    return {key: value for key, value in meta.items() if key.startswith("spec_") or key == "finish_reason"}


def _say(answers: Any, **message: Any) -> None:
    answers.write(json.dumps(message, default=str) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
