"""Forward hooks for SGLang's own ``--forward-hooks``: they copy the states of whole prefills as they pass.

This module lives in somebody else's server, under that server's version pins: torch and the standard library only. A
hook here never raises into the forward pass, never waits for the device, and does nothing while a CUDA graph is being
captured. Norms overwrite their inputs in place on CUDA, so every tensor is cloned at once.

SGLang calls the factory once for each spec and each model (target, then drafter), in the same process, and its hooks
see positional arguments only. So each spec names one hook point, and the calls of one forward pass are collected in a
frame, from the embedding to the logits processor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from hsforensics.capture.hook_batch import Piece, pieces_of
from hsforensics.capture.spool import Spool, SpoolPart

Hook: TypeAlias = Callable[[Any, tuple[Any, ...], Any], None]
"""What torch calls after a module's forward: (module, positional arguments, output)."""

DRAFTER_WORDS = ("eagle", "nextn", "mtp", "dflash", "dspark")
"""Words in the module names of SGLang's drafter classes, such as ``sglang.srt.models.llama_eagle3``."""


def factory(config: dict[str, Any]) -> Hook | None:
    """SGLang's entry point, ``hsforensics.capture.hook:factory``.

    Args:
        config: ``spool``: directory to write into; ``point``: the hook point (see ``_RECORD``), such as ``state:3``;
            ``rid_prefix``: record only requests whose id starts so; ``max_bytes``: bound on everything that the
            first rank writes; ``every_rank``: the others record what they serve, too, ``rank_bytes`` each at most.

    Returns:
        The hook; ``None`` (SGLang then registers nothing) for a point that this rank does not record, and when the
        config is unusable. All ranks share the states of the first.
    """
    try:
        rank = _rank()
        if rank and not (config.get("every_rank") and config["point"] in _RANK_POINTS):
            return None
        return _recorder(config, rank).hook(config["point"])
    except Exception:  # noqa: BLE001 (a bad config must not stop a server from starting)
        return None


_RANK_POINTS = ("embed", "fc", "model", "logits")
"""What a rank other than the first needs: where a pass starts, whose it is (``fc`` is a drafter's), what it serves."""


def _rank() -> int:
    ready = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_rank() if ready else 0


_RECORDERS: dict[tuple[str, int], Recorder] = {}
"""One recorder for each spool directory and rank: all hook points of all models in this process share it."""


def _recorder(config: dict[str, Any], rank: int) -> Recorder:
    key = config["spool"], rank
    if key not in _RECORDERS:
        bound = int(config["rank_bytes" if rank else "max_bytes"])
        _RECORDERS[key] = Recorder(Spool(key[0], bound), config.get("rid_prefix", ""), rank)
    return _RECORDERS[key]


class Recorder:
    """Collects the tensors of one forward pass after the other, and hands whole prefills to the spool.

    Attributes:
        spool: Where requests are written.
        rid_prefix: Only requests whose id starts with it are recorded.
        rank: Of this process among all of the engine's.
        frame: Tensors of the pass under way by name: ``state.3`` [N, H], ``fc_input`` [N, n * H], ...
        owner: Module name of the class of the model under way.
    """

    def __init__(self, spool: Spool, rid_prefix: str, rank: int = 0) -> None:
        self.spool = spool
        self.rid_prefix = rid_prefix
        self.rank = rank
        self.frame: dict[str, torch.Tensor] = {}
        self.owner = ""

    def hook(self, point: str) -> Hook:
        """The hook of one point: ``embed``, ``state:i``, ``mid:i``, ``norm:L``, ``fc``, ``model`` or ``logits``."""
        kind, _, number = point.partition(":")
        record = _RECORD[kind]

        def run(module: Any, args: tuple[Any, ...], output: Any) -> None:
            try:
                if not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()):
                    record(self, number, module, args, output)
            except Exception:  # noqa: BLE001 (never into the forward pass; the reader of the spool is told)
                self.frame = {}
                self.spool.complain(f"hook point {point}")

        return run

    def keep(self, name: str, value: Any) -> None:
        """Clone a tensor into the frame, at once; the first of a name stays, anything else is no state."""
        if isinstance(value, torch.Tensor) and value.dim() == 2 and name not in self.frame:
            self.frame[name] = value.detach().clone()


def _embed(recorder: Recorder, _number: str, _module: Any, _args: tuple[Any, ...], output: Any) -> None:
    recorder.frame, recorder.owner = {}, ""  # the first module of every pass
    recorder.keep("state.0", output)


def _state(recorder: Recorder, number: str, _module: Any, args: tuple[Any, ...], output: Any) -> None:
    """The input of layer i: a norm that also adds returns (normed, sum); one that does not has it as its argument."""
    if isinstance(output, tuple):
        recorder.keep(f"state.{number}", output[1])
    elif len(args) == 1 or args[1] is None:
        recorder.keep(f"state.{number}", args[0])


def _mid(recorder: Recorder, number: str, _module: Any, _args: tuple[Any, ...], output: Any) -> None:
    """Only a norm that also adds holds the stream; otherwise it norms the attention branch alone."""
    if isinstance(output, tuple):
        recorder.keep(f"mid.{number}", output[1])


def _norm(recorder: Recorder, number: str, module: Any, args: tuple[Any, ...], output: Any) -> None:
    _state(recorder, number, module, args, output)
    recorder.keep("postnorm", output[0] if isinstance(output, tuple) else output)


def _fc(recorder: Recorder, _number: str, _module: Any, args: tuple[Any, ...], _output: Any) -> None:
    recorder.keep("fc_input", args[0])


def _model(recorder: Recorder, _number: str, module: Any, _args: tuple[Any, ...], _output: Any) -> None:
    recorder.owner = type(module).__module__.rpartition(".")[2]


def _logits(recorder: Recorder, _number: str, _module: Any, args: tuple[Any, ...], _output: Any) -> None:
    """The last module of every pass: it sees the batch, and the aux states that SGLang hands on to the drafter."""
    frame, recorder.frame = recorder.frame, {}
    batch = next((item for item in args if hasattr(item, "forward_mode")), None)
    pieces = pieces_of(batch, recorder.rid_prefix)
    if not pieces or not frame:
        return
    role, served = _role(recorder, frame), _served(args[4] if len(args) > 4 else None, int(args[1].shape[-1]))
    if role == "drafter":
        if recorder.rank:
            return
        frame = _only_fc(frame, batch)
    else:
        frame = served if recorder.rank else frame | served
    tokens, positions = args[0].clone(), batch.positions.clone()  # type: ignore[union-attr]
    recorder.spool.put(SpoolPart(role, tuple(pieces), tokens, positions, frame))


def _role(recorder: Recorder, frame: dict[str, torch.Tensor]) -> str:
    """Whose pass it was: the target's, the drafter's, or the target's on another rank."""
    if any(word in recorder.owner for word in DRAFTER_WORDS) or "fc_input" in frame:
        return "drafter"
    return f"rank{recorder.rank}" if recorder.rank else "target"


def _only_fc(frame: dict[str, torch.Tensor], batch: Any) -> dict[str, torch.Tensor]:
    """What the drafter's ``fc`` received; the states themselves where the drafter norms each of them first."""
    given = getattr(getattr(batch, "spec_info", None), "hidden_states", None)
    seen = frame.get("fc_input")
    if isinstance(given, torch.Tensor) and seen is not None and given.shape == seen.shape:
        return {"fc_input": seen, "fc_given": given.detach().clone()}
    return {} if seen is None else {"fc_input": seen}


def _served(aux: Any, width: int) -> dict[str, torch.Tensor]:
    """The aux states, as a list of [N, H] or packed as [N, n * H], in the order they will be joined."""
    if isinstance(aux, torch.Tensor):
        aux = torch.split(aux, width, dim=-1)
    return {f"served.{slot}": value.detach().clone() for slot, value in enumerate(aux or ())}


_RECORD: dict[str, Callable[[Recorder, str, Any, tuple[Any, ...], Any], None]] = {
    "embed": _embed,
    "fc": _fc,
    "logits": _logits,
    "mid": _mid,
    "model": _model,
    "norm": _norm,
    "state": _state,
}

__all__ = ["Piece", "Recorder", "factory"]
