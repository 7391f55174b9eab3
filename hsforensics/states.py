"""The vocabulary as types: state, wiring, channel, sample, finding.

Everything here is plain frozen data. Tensors appear only as annotations, so importing this module costs
no torch import (``hsforensics --help`` relies on that).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

State: TypeAlias = int | str
"""A position in the target's residual stream, Hugging Face numbering.

``0`` is the embedding output, ``i`` the output of decoder layer ``i - 1`` (the input of layer ``i``), ``L`` the
stream after the last layer and before the final norm. ``"postnorm"`` is ``final_norm(state L)``, and ``"mid:i"`` the
stream inside layer ``i``, after attention and before the MLP.
"""

Wiring: TypeAlias = tuple[State | None, ...]
"""The ordered states that feed the drafter's ``fc``; ``None`` where a slot is not known."""

Role: TypeAlias = Literal["aux", "target", "unused"]
"""What a channel is for: fed to ``fc``, used as distillation target, or neither."""

Side: TypeAlias = Literal["dump", "served"]
"""Where a channel was found: in training data, or in what the engine fed to the drafter."""

Identity: TypeAlias = Literal["exact", "match", "ambiguous", "none", "unreadable"]
"""What a channel is: bit-equal to a state, close to one, close to several, close to none, or not readable."""

Status: TypeAlias = Literal["matched", "mismatched", "ambiguous", "unmatched", "unreadable"]
"""What a channel's identity means for the pair it belongs to; exactly one for each channel on either side."""

Severity: TypeAlias = Literal["error", "warning", "info"]
"""``error``: serving or training is wrong. ``warning``: it may be. ``info``: good news, or a fact to know."""

POSTNORM = "postnorm"
MOST_LAYERS = 10_000
"""No decoder has more layers; a file that says so is not believed."""

WIDEST = 1 << 20
"""Nor is a state wider."""

_MID = re.compile(r"mid:(\d+)")
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,199}")
_WRITTEN_MID = re.compile(r"mid:(0|[1-9][0-9]{0,8})")


@dataclass(frozen=True)
class Channel:
    """One hidden-state tensor of a dump or of a capture, whatever its label.

    Attributes:
        index: Position in its file, from 0. The only name of a channel that cannot lie.
        label: What the file calls it (a key, a file name, a list position).
        claim: The state that the label or a config says it holds, or ``None``. A claim proves nothing.
        values: ``[T, H]`` in the producer's dtype, on the CPU.
    """

    index: int
    label: str
    claim: State | None
    values: Tensor


@dataclass(frozen=True)
class Sample:
    """One sequence of a dump: its tokens and its channels.

    Attributes:
        name: Short name for messages, relative to the dump directory.
        path: The file or directory it was read from.
        token_ids: ``[T]`` int64.
        channels: In file order. Their row counts may differ from ``T``: that is for health checks to say.
        loss_mask: ``[T]`` int64, or ``None`` when the producer stored none.
    """

    name: str
    path: Path
    token_ids: Tensor
    channels: tuple[Channel, ...]
    loss_mask: Tensor | None = None


@dataclass(frozen=True)
class Finding:
    """One observation: what, where, on what evidence, how sure, and what to do.

    Attributes:
        code: A stable word from the catalogue in ``hsforensics.findings``.
        severity: See ``Severity``.
        where: File, channel or config key, in the user's terms.
        message: One sentence: what is the case.
        evidence: The numbers behind it.
        remedy: What to do next.
        confidence: ``measured`` from values, ``predicted`` from a rule or a config, ``claimed`` by a label.
        share: How much of what is wrong at this place the finding explains, 0 to 1; ``None`` where that has no measure.
        commands: What to type for the remedy, in order, quoted for a shell. Upper-case words stand for what nobody
            has said yet, see ``hsforensics.findings.PLACEHOLDERS``.
    """

    code: str
    severity: Severity
    where: str
    message: str
    evidence: str
    remedy: str
    confidence: Literal["measured", "predicted", "claimed"] = "measured"
    share: float | None = None
    commands: tuple[str, ...] = ()


def parse_state(text: str) -> State:
    """Read a state as users write it: ``3``, ``postnorm``, ``mid:3``, ``embedding`` (state 0).

    Raises:
        ValueError: The text names no state.
    """
    word = text.strip().lower()
    if word.isdecimal():
        return int(word)
    if word in ("embedding", "embed"):
        return 0
    if word == POSTNORM or _MID.fullmatch(word):
        return word
    raise ValueError(f"{text!r} names no state: write a number from 0 to L, 'postnorm', or 'mid:3'")


def is_state(value: object, layers: int | None = None) -> bool:
    """Whether a value from a file is a state as this package writes it, and one of a target of L layers.

    Args:
        value: A whole number, ``postnorm`` or ``mid:3``; nothing else, no number as text, no other case.
        layers: L, where it is known.
    """
    if isinstance(value, str):
        middle = _WRITTEN_MID.fullmatch(value)
        return value == POSTNORM or (middle is not None and (layers is None or int(middle[1]) < layers))
    return type(value) is int and value >= 0 and (layers is None or value <= layers)


def is_class_name(text: str) -> bool:
    """Whether a text from a file may be a model class, or a model type where no class was told."""
    return _CLASS.fullmatch(text) is not None


def parse_wiring(text: str) -> tuple[State, ...]:
    """Read a comma-separated wiring such as ``3,31,59`` or ``3,31,postnorm``.

    Raises:
        ValueError: An item names no state, or there is none.
    """
    return tuple(parse_state(item) for item in text.split(","))


def state_order(state: State) -> float:
    """Depth of a state for sorting: ``mid:i`` lies between ``i`` and ``i + 1``, postnorm after everything."""
    if isinstance(state, int):
        return float(state)
    if middle := _MID.fullmatch(state):
        return int(middle[1]) + 0.5
    return float("inf")


def is_middle(state: State) -> bool:
    """Whether a state is the stream inside of a layer, ``mid:i``."""
    return isinstance(state, str) and state.startswith("mid:")


def show_state(state: State | None) -> str:
    """A state in words for people: ``state 3``, ``embedding (state 0)``, ``postnorm``, ``unknown``."""
    match state:
        case None:
            return "unknown"
        case 0:
            return "embedding (state 0)"
        case int():
            return f"state {state}"
        case _:
            return state


def show_wiring(wiring: Wiring | None) -> str:
    """A wiring for people, such as ``[3, 31, 59]`` or ``[3, ?, postnorm]``; ``unknown`` for ``None``."""
    if wiring is None:
        return "unknown"
    return "[" + ", ".join("?" if state is None else str(state) for state in wiring) + "]"
