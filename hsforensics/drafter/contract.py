"""The contract: a small file beside a drafter that says which states it was trained on, with values to prove it.

Written at training time by ``hsforensics contract write`` or ``hsforensics.contract.write_contract``, and checked
before a server starts, in CI, or against a capture. It holds no text: token sequences appear only as hashes.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from hsforensics.capture.manifest import token_ids_sha256
from hsforensics.drafter.write import in_hub_cache
from hsforensics.errors import HsfError
from hsforensics.shell import path_word
from hsforensics.states import MOST_LAYERS, WIDEST, State, is_class_name, is_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

NAME: Final = "hsforensics-contract.json"
FORMAT: Final = "hsforensics-contract"
VALUES = 16
"""First values of a row that are kept."""

_ROWS, _PREFIX = 8, 64
_CODE = "contract-unreadable"


@dataclass(frozen=True)
class ContractTarget:
    """The target that a drafter was trained for; ``None`` where the writer was not told."""

    wrapper: str | None = None
    inner: str | None = None
    config_sha256: str | None = None
    layers: int | None = None
    hidden_size: int | None = None


@dataclass(frozen=True)
class Imprint:
    """A few rows of every channel of one sequence.

    Attributes:
        tokens: Length n of the sequence's start that the rows depend on.
        tokens_sha256: Hash of these n token ids.
        rows: Row numbers, all less than n.
        norms: For each channel and row ``|x|``.
        values: For each channel and row the first ``VALUES`` values.
    """

    tokens: int
    tokens_sha256: str
    rows: tuple[int, ...]
    norms: tuple[tuple[float, ...], ...]
    values: tuple[tuple[tuple[float, ...], ...], ...]


@dataclass(frozen=True)
class Contract:
    """What a trainer promises about a drafter.

    Attributes:
        states: The trained wiring, in ``fc`` order.
        method: Kind of drafter.
        target: For which target.
        target_state: What the trainer distilled from: L, ``postnorm``, or ``None`` if not told.
        layout: Where the ids lay in the config when this was written: ``nested``, ``top-level``, ``both``, ``none``.
        flags: Norm switches by name.
        drafter_structure_sha256: Hash of its weights' names, shapes and dtypes; ``None`` without weights.
        drafter_weights_sha256: Hash of the first row of each of its weights, which training changes; ``None`` in
            contracts that were written without it, and for weights that are no safetensors.
        imprints: Values to prove the states with; may be empty.
        producers: Program -> version, of what trained and what wrote this.
        created: UTC, ISO 8601.
    """

    states: tuple[State, ...]
    method: Literal["eagle3", "dflash", "dspark"]
    target: ContractTarget
    target_state: State | None
    layout: str
    flags: dict[str, bool]
    drafter_structure_sha256: str | None
    drafter_weights_sha256: str | None = None
    imprints: tuple[Imprint, ...] = ()
    producers: dict[str, str] = field(default_factory=dict)
    created: str = ""
    format: Literal["hsforensics-contract"] = FORMAT
    version: Literal[1] = 1


def imprint(token_ids: Tensor, channels: Sequence[Tensor]) -> Imprint:
    """Keep a few rows of a sequence.

    Args:
        token_ids: [T] int64.
        channels: [T, H] each, in ``fc`` order.

    Raises:
        HsfError: ``nothing-compared``: no tokens, other row counts, or values that are not finite.
    """
    import torch

    n = min(len(token_ids), _PREFIX)
    if n == 0 or not channels or any(len(x) < n for x in channels):
        got = f"{len(token_ids)} tokens and {[len(x) for x in channels]} rows"
        raise HsfError(
            "nothing-compared", "contract", f"each channel needs a row for each token, got {got}", "fix these"
        )
    rows = sorted({round(i) for i in torch.linspace(min(1, n - 1), n - 1, _ROWS).tolist()})
    picked = [x[rows].float().cpu() for x in channels]  # [R, H]
    if not all(bool(x.isfinite().all()) for x in picked):
        raise HsfError("nothing-compared", "contract", "a channel holds NaN or Inf", "give rows that are finite")
    return Imprint(
        tokens=n,
        tokens_sha256=token_ids_sha256(token_ids[:n]),
        rows=tuple(rows),
        norms=tuple(tuple(_short(x.norm(dim=1))) for x in picked),
        values=tuple(tuple(tuple(_short(row)) for row in x[:, :VALUES]) for x in picked),
    )


def _short(x: Tensor) -> list[float]:
    """Seven digits are what fp32 holds."""
    return [float(f"{value:.7g}") for value in x.tolist()]


def contract_path(drafter: Path) -> Path:
    """Where a drafter's contract lies."""
    return (drafter if drafter.is_dir() else drafter.parent) / NAME


def write_contract_file(path: Path, contract: Contract, *, force: bool = False) -> None:
    """Write a contract, whole or not at all; only a contract that says the same is replaced without ``force``.

    Raises:
        HsfError: ``write-refused``; ``contract-unreadable`` when something else has its name; ``usage`` for promises
            that no target can keep.
    """
    if path.is_symlink() or in_hub_cache(path):
        message = "is a symbolic link, or lies in a hub cache, whose files must stay as downloaded"
        raise HsfError("write-refused", path, message, "write into a copy of the drafter")
    if path.exists() and not force and _contradicts(read_contract(path), contract):
        message = "another contract is there, which promises something else"
        raise HsfError("write-refused", path, message, "look at it; --force replaces it")
    if nonsense := _nonsense(contract):
        raise HsfError("usage", path, nonsense, "give the wiring, and the target, that the drafter was trained on")
    text = json.dumps(asdict(contract), indent=1, allow_nan=False) + "\n"
    try:
        number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                os.fchmod(number, 0o644)
                file.write(text)
                file.flush()
                os.fsync(number)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise HsfError("write-refused", path, f"writing failed ({error.strerror})", "check its directory") from None


def promise(contract: Contract) -> dict[str, Any]:
    """What a contract says of the drafter, without when and by what it was written."""
    said = asdict(contract)
    return {key: value for key, value in said.items() if key not in ("created", "producers", "layout")}


def _contradicts(old: Contract, new: Contract) -> bool:
    """Whether two contracts promise different things; what the old one lacks of the weights' values is not one."""
    said, says = promise(old), promise(new)
    if old.drafter_weights_sha256 is None:
        says["drafter_weights_sha256"] = None
    return said != says


def read_contract(path: Path) -> Contract:
    """Read a contract.

    Raises:
        HsfError: ``contract-unreadable``: missing, torn, of another version, or with parts of another type.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise HsfError(_CODE, path, "there is no contract beside this drafter", _again(path)) from None
    except (OSError, ValueError) as error:
        raise HsfError(_CODE, path, f"is not readable ({error})", _again(path)) from None
    try:
        found: Contract = TypeAdapter(Contract).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise HsfError(_CODE, path, f"'{where}': {first['msg']}", _again(path)) from None
    if nonsense := _nonsense(found):
        raise HsfError(_CODE, path, nonsense, _again(path))
    for mark in found.imprints:
        shapes = {len(mark.norms), len(mark.values), len(found.states)}
        if len(shapes) > 1 or any(len(x) != len(mark.rows) for x in (*mark.norms, *mark.values)):
            raise HsfError(_CODE, path, "its imprints have other shapes than its states and rows", _again(path))
    return found


def _nonsense(found: Contract) -> str | None:
    """What no trainer can have promised: a contract comes from a stranger, and its words end up in commands."""
    told = found.target
    strange = [state for state in found.states if not is_state(state, told.layers)]
    if strange or not found.states:
        of = f" of {told.layers} layers" if told.layers is not None else ""
        got = f"got {strange[0]!r:.60}" if strange else "there are none"
        return f"'states' must be states of a target{of}: numbers, 'postnorm' or 'mid:3'; {got}"
    for name, value in (("wrapper", told.wrapper), ("inner", told.inner)):
        if value is not None and not is_class_name(value):
            return f"'target.{name}' must be the name of a class, got {value!r:.60}"
    for name, size, most in (("layers", told.layers, MOST_LAYERS), ("hidden_size", told.hidden_size, WIDEST)):
        if size is not None and not 0 < size <= most:
            return f"'target.{name}' must lie between 1 and {most}, got {size!r:.20}"
    return None


def flags_of(config: dict[str, Any], tensors: set[str]) -> dict[str, bool]:
    """The norm switches of a drafter, from its config and from the weights that only they use."""
    nested = config.get("eagle_config")
    inner = nested if isinstance(nested, dict) else {}

    def on(*names: str) -> bool:
        return any(bool(config.get(name) or inner.get(name)) for name in names)

    ends = tuple(name.removeprefix("model.") for name in tensors)
    return {
        "norm_before_residual": on("norm_before_residual"),
        "norm_before_fc": on("norm_before_fc") or "input_norm.weight" in ends,
        "fc_norm": on("fc_norm", "use_aux_norm") or any(name.startswith(("fc_norm.", "aux_norm_")) for name in ends),
        "norm_output": on("norm_output", "return_hidden_post_norm"),
    }


def _again(path: Path) -> str:
    return f"write it again: hsforensics contract write {path_word(path.parent, 'DRAFTER')} --wiring STATES"
