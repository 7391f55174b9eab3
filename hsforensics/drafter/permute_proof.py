"""Proof that a checkpoint with reordered channels computes what the old one does: by blocks, and by running both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hsforensics.drafter.model import choices, first_step, fuse, next_step
from hsforensics.drafter.permute import OLD_NAMES, moves, permute_blocks
from hsforensics.drafter.rope import Rope
from hsforensics.drafter.spec import DrafterSpec
from hsforensics.drafter.weights import DrafterWeights, load_drafter
from hsforensics.models.checkpoint import Checkpoint, open_checkpoint, read_json

if TYPE_CHECKING:
    from torch import Tensor

    from hsforensics.models.target import Target

_ROWS = 48
_CLOSE = 1e-5  # relative: the norms before fc work in fp32, whose sums depend on their order


@dataclass(frozen=True)
class Proof:
    """How equality was shown; see ``hsforensics.results_config.PermuteResult``."""

    blocks_equal: bool
    rows: int
    difference: float
    through: Literal["fc", "drafter"]


def prove_equal(old: Path, new: Path, order: tuple[int, ...], target: Target | None, seed: int) -> Proof:
    """Compare two checkpoints whose channels differ in order only.

    Args:
        old: The drafter.
        new: The permuted one.
        order: For each new slot the old one.
        target: Lends embedding and head, so that two draft steps of the whole drafter are run.
        seed: Of the random inputs.

    Raises:
        RuntimeError: They differ: a bug, and the new one must not be used.
    """
    before, after = open_checkpoint(old, "drafter-unreadable"), open_checkpoint(new, "drafter-unreadable")
    blocks = _blocks_equal(before, after, order)
    difference = _run_whole(old, new, order, target, seed) if target else _run_fc(before, after, order, seed)
    if not blocks or not difference <= _CLOSE:  # also true for NaN
        raise RuntimeError(f"the permuted checkpoint differs: blocks equal {blocks}, outputs by {difference}")
    return Proof(blocks, _ROWS, difference, "drafter" if target else "fc")


def _blocks_equal(before: Checkpoint, after: Checkpoint, order: tuple[int, ...]) -> bool:
    """Every tensor of the new checkpoint is an old one: as it was, under another number, or with its blocks moved."""
    import torch

    moved = {move.name: move for move in moves(before, order)}
    if before.tensors.keys() != after.tensors.keys():
        return False
    back = tuple(order.index(slot) for slot in range(len(order)))
    for name in before.tensors:
        move = moved.get(name)
        new = after.tensor(name)
        if move is not None and move.blocks:
            new = permute_blocks(new, back)
        old = before.tensor(move.source if move else name)
        if new.dtype != old.dtype or not torch.equal(_bytes(new), _bytes(old)):
            return False
    return True


def _bytes(x: Tensor) -> Tensor:
    import torch

    return x.contiguous().flatten().view(torch.uint8)


def _run_fc(before: Checkpoint, after: Checkpoint, order: tuple[int, ...], seed: int) -> float:
    """``fc`` with the norms before it, in fp64: the channels reach nothing else of a drafter."""
    old, new = _fc_only(before, len(order)), _fc_only(after, len(order))
    aux = _random_aux(old.fc.shape[1], len(order), seed)
    return _difference(fuse(old, aux), fuse(new, permute_blocks(aux, order)))


def _run_whole(old: Path, new: Path, order: tuple[int, ...], target: Target, seed: int) -> float:
    """Two draft steps of the whole drafter in fp64; the tokens proposed must be the same, too."""
    import torch

    dtype, device = torch.float64, torch.device("cpu")
    first, second = (load_drafter(path, target, dtype, device).weights for path in (old, new))
    aux = _random_aux(first.fc.shape[1], len(order), seed)
    tokens = torch.randint(len(first.embedding), (_ROWS,), generator=torch.Generator().manual_seed(seed))
    a, b = first_step(first, tokens, aux), first_step(second, tokens, permute_blocks(aux, order))
    c, d = next_step(first, a, tokens), next_step(second, b, tokens)
    same = torch.equal(choices(first, a.normed), choices(second, b.normed))
    worst = max(_difference(a.feature, b.feature), _difference(c.feature, d.feature))
    return worst if same else float("inf")


def _difference(x: Tensor, y: Tensor) -> float:
    return float((x - y).abs().max() / x.abs().max())


def _random_aux(width: int, channels: int, seed: int) -> Tensor:
    """[R, n * H] fp64: every channel at another scale, as real states have."""
    import torch

    noise = torch.randn(_ROWS, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    scale = torch.logspace(0, 2, channels, dtype=torch.float64).repeat_interleave(width // channels)
    return noise * scale


def _fc_only(checkpoint: Checkpoint, channels: int) -> DrafterWeights:
    """A drafter of which only ``fc`` and the norms before it are filled in."""
    import torch

    tensors = {name.removeprefix("model."): name for name in checkpoint.tensors}
    fc = checkpoint.tensor(tensors["fc.weight"]).double()
    wide = tensors.get("input_norm.weight")
    each = [tensors.get(f"fc_norm.{i}.weight") or tensors.get(OLD_NAMES[i % 3]) for i in range(channels)]
    norms = tuple(checkpoint.tensor(name).double() for name in each if name)
    config = read_json(checkpoint.path / "config.json", "drafter-unreadable")
    eps = config.get("rms_norm_eps")
    H, nothing = fc.shape[0], torch.empty(0)
    spec = DrafterSpec(
        hidden_size=H,
        target_hidden_size=fc.shape[1] // channels,
        heads=1,
        kv_heads=1,
        head_dim=H,
        intermediate_size=1,
        norm_eps=float(eps) if isinstance(eps, float) else 1e-6,
        rope=Rope(10000.0, None, 1),
        draft_vocab_size=1,
        channels=channels,
    )
    return DrafterWeights(
        spec=spec,
        layer={},
        fc=fc,
        norm=nothing,
        head=nothing,
        embedding=nothing,
        target_ids=nothing,
        frequencies=nothing,
        input_norm=checkpoint.tensor(wide).double() if wide else None,
        fc_norms=norms,
    )
