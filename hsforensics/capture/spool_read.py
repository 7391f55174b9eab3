"""The reading end of the spool: parts that hooks wrote, taken by request, turned into one request of a capture."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hsforensics.capture.hook_batch import RID_PREFIX
from hsforensics.capture.manifest import RequestTensors, by_depth
from hsforensics.capture.spool import COMPLAINTS, SUFFIX
from hsforensics.states import State

if TYPE_CHECKING:
    from torch import Tensor

_POLL_S = 0.02


@dataclass(frozen=True)
class Part:
    """One part: the role of the model that it comes from, the request's id, the device, and tensors by name."""

    role: str
    rid: str
    device: str
    tensors: dict[str, Tensor]


@dataclass
class SpoolReader:
    """Takes parts out of a spool directory; a file that was read is removed, so the disk holds few at any time.

    Attributes:
        folder: The directory.
        ranks: Ranks other than the first that wrote anything so far.
    """

    folder: Path
    ranks: set[int] = field(default_factory=set)
    _held: dict[tuple[str, ...], Part] = field(default_factory=dict)

    def take(self, rid: str, token_ids: Sequence[int], roles: Sequence[str], timeout_s: float) -> dict[str, Part]:
        """The parts of one request, by role; those that did not come in time are missing.

        Args:
            rid: The request's id, for engines that report ids.
            token_ids: Its tokens, for those that do not, and as a check for those that do.
            roles: Of ``target``, ``drafter``, ``rank1``, ...
            timeout_s: How long to wait for the writing thread.
        """
        deadline = time.monotonic() + timeout_s
        found: dict[str, Part] = {}
        while True:
            self._read_all()
            for role in roles:
                found |= self._match(role, rid, token_ids)
            if all(role in found for role in roles) or time.monotonic() > deadline:
                return found
            time.sleep(_POLL_S)

    def forget(self) -> None:
        """Drop every part that was written so far and not taken."""
        self._read_all()
        self._held.clear()

    @property
    def complaints(self) -> str:
        """What the hooks had to complain about; empty when all is well."""
        try:
            return (self.folder / COMPLAINTS).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    def _match(self, role: str, rid: str, token_ids: Sequence[int]) -> dict[str, Part]:
        """A target's part has the request's tokens; a drafter's has them shifted by one, and a new last one."""
        for key, part in self._held.items():
            seen = part.tensors["token_ids"].tolist()
            mine = seen[:-1] == list(token_ids[1:]) if role == "drafter" else seen == list(token_ids)
            named = part.rid.startswith(RID_PREFIX)  # older engines make up ids of their own
            if part.role == role and mine and (part.rid == rid or not named):
                return {role: self._held.pop(key)}
        return {}

    def _read_all(self) -> None:
        for file in sorted(self.folder.glob(f"*{SUFFIX}")):
            part = _read_part(file)
            self._held[(file.name,)] = part
            self.ranks.update(map(int, re.findall(r"^rank(\d+)$", part.role)))
            file.unlink()


def _read_part(file: Path) -> Part:
    from safetensors import safe_open

    with safe_open(file, framework="pt", device="cpu") as opened:
        about = json.loads(opened.metadata()["hsforensics"])
        tensors = {name: opened.get_tensor(name).clone() for name in opened.keys()}  # noqa: SIM118 (not a dict)
    return Part(file.name.partition("-")[0], str(about["rid"]), str(about["device"]), tensors)


def request_of(target: Part, drafter: Part | None, ranks: Sequence[Part] = ()) -> RequestTensors:
    """One request of a capture from the parts of both models: states by depth, served slots, what ``fc`` received.

    ``ranks``: the target's parts on the other ranks, rank 1 first.
    """
    states = {_state_named(name): value for name, value in target.tensors.items() if _is_state(name)}
    return RequestTensors(
        token_ids=target.tensors["token_ids"].long(),
        positions=target.tensors["positions"].long(),
        states={state: states[state] for state in by_depth(states)},
        served=_served(target),
        fc_input=None if drafter is None else drafter.tensors.get("fc_input"),
        ranks=tuple(_served(part) for part in ranks),
    )


def _served(part: Part) -> tuple[Tensor, ...]:
    slots = sorted((int(name[7:]), name) for name in part.tensors if name.startswith("served."))
    return tuple(part.tensors[name] for _, name in slots)


def _is_state(name: str) -> bool:
    return name == "postnorm" or name.startswith(("state.", "mid."))


def _state_named(name: str) -> State:
    kind, _, number = name.partition(".")
    if kind == "state":
        return int(number)
    return f"mid:{number}" if kind == "mid" else kind
