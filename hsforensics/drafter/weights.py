"""A drafter's weights, checked tensor by tensor and joined with what it takes from the target: embedding and head."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from hsforensics.drafter.rope import inverse_frequencies
from hsforensics.drafter.spec import DrafterSpec, Shapes, expected_shapes, read_spec
from hsforensics.drafter.tensors import LAYER, UNREADABLE, UNSUPPORTED, canonical_names, missing
from hsforensics.drafter.vocabulary import target_ids
from hsforensics.errors import HsfError
from hsforensics.models.checkpoint import open_checkpoint, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import torch
    from torch import Tensor

    from hsforensics.models.target import Target

_ROUNDING = 2.0**-7  # relative; two roundings to bf16 of one value differ by less
_HEAD, _EMBEDDING = "lm_head.weight", "embed_tokens.weight"
_MAPS = ("d2t", "t2d")
_FULL_BYTES = 2  # for each number; below that lie fp8 and fp4


@dataclass(frozen=True)
class DrafterWeights:
    """Everything the forward needs, all on one device; a trainer may put tensors with gradients in here.

    Attributes:
        spec: Sizes and switches.
        layer: Parts of the decoder layer by name, see ``hsforensics.drafter.tensors.LAYER``.
        fc: [H, n * Ht], joins the channels.
        norm: [H], the gain of the final norm.
        head: [D, H].
        embedding: [V, H], rows by target token id.
        target_ids: [D] int64, target token id of each draft token.
        frequencies: [head_dim / 2] fp32, rotary angles for each position, and
        rope_factor: what rotated vectors are multiplied with.
        input_norm: [n * Ht], or ``None``.
        fc_norms: n gains [Ht], or none.
    """

    spec: DrafterSpec
    layer: Mapping[str, Tensor]
    fc: Tensor
    norm: Tensor
    head: Tensor
    embedding: Tensor
    target_ids: Tensor
    frequencies: Tensor
    rope_factor: float = 1.0
    input_norm: Tensor | None = None
    fc_norms: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class LoadedDrafter:
    """A drafter read from its directory.

    Attributes:
        weights: Ready for the forward.
        embedding_source: Whose token embedding is used: the target's wherever the widths agree, as SGLang does.
        embedding_differs: Share of token rows where the drafter's own embedding is not the target's; ``None`` if it
            ships none or the two widths differ.
        head_source: Whose output head is used.
        config_sha256: Hash of the config's bytes.
        structure_sha256: Hash of names, shapes and dtypes of its weights.
    """

    weights: DrafterWeights
    embedding_source: Literal["target", "drafter"]
    embedding_differs: float | None
    head_source: Literal["target", "drafter"]
    config_sha256: str
    structure_sha256: str


def load_drafter(path: Path, target: Target, dtype: torch.dtype, device: torch.device) -> LoadedDrafter:
    """Read and check a drafter for a target.

    Args:
        path: The drafter's directory, with ``config.json`` and weights.
        target: Lends the embedding, and the head where the drafter has none.
        dtype: Of every weight in the forward.
        device: Where the forward runs.

    Raises:
        HsfError: ``not-found``, ``drafter-unreadable``, ``drafter-unsupported``, or ``usage`` for another target.
    """
    if not path.is_dir():
        raise HsfError("not-found", path, "no such drafter directory", "give the drafter's local directory")
    file = path / "config.json"
    config = read_json(file, UNREADABLE)
    checkpoint = open_checkpoint(path, UNREADABLE)
    names = canonical_names(checkpoint)
    shapes = {name: checkpoint.tensors[stored].shape for name, stored in names.items()}
    _check_matrices(shapes, names, path)
    spec = read_spec(config, shapes, target.vocab_size, file)
    _check_target(spec, target, path)
    _check_shapes(spec, shapes, names, path)
    own = {name: checkpoint.tensor(stored) for name, stored in names.items()}
    _check_dtypes(own, names, path)
    _check_finite(own, names, path)
    embedding, source, differs = _embedding(spec, own, target, path)
    weights = _assemble(spec, own, embedding, target, path)
    return LoadedDrafter(
        weights=_move(weights, dtype, device),
        embedding_source=source,
        embedding_differs=differs,
        head_source="drafter" if _HEAD in own else "target",
        config_sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        structure_sha256=checkpoint.structure_sha256(),
    )


def _check_matrices(shapes: Shapes, names: dict[str, str], path: Path) -> None:
    """The three tensors whose shapes say something about the spec must be matrices."""
    for name in ("fc.weight", _HEAD, _EMBEDDING):
        if name in shapes and len(shapes[name]) != 2:
            got = f"tensor '{names[name]}' is {list(shapes[name])}, must have two dimensions"
            raise HsfError(UNREADABLE, path, got, "use a whole EAGLE-3 checkpoint")


def _check_dtypes(own: dict[str, Tensor], names: dict[str, str], path: Path) -> None:
    """Refuse quantised weights: without their scales, which no tensor here is, they are other numbers."""
    for name, value in own.items():
        if name in _MAPS or (value.is_floating_point() and value.element_size() >= _FULL_BYTES):
            continue
        dtype = str(value.dtype).removeprefix("torch.")
        got = f"tensor '{names[name]}' is {dtype}: quantised weights are not supported"
        raise HsfError(UNSUPPORTED, path, got, "use the checkpoint in fp32, bf16 or fp16")


def _check_finite(own: dict[str, Tensor], names: dict[str, str], path: Path) -> None:
    for name, value in own.items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            got = f"tensor '{names[name]}' holds NaN or Inf"
            raise HsfError(UNREADABLE, path, got, "the training run diverged: take an earlier checkpoint")


def _check_target(spec: DrafterSpec, target: Target, path: Path) -> None:
    if spec.target_hidden_size != target.hidden_size:
        got = f"the drafter reads states of width {spec.target_hidden_size}, the target's have {target.hidden_size}"
        raise HsfError("usage", "--target", got, f"give the target that {path} was trained for")


def _check_shapes(spec: DrafterSpec, shapes: Shapes, names: dict[str, str], path: Path) -> None:
    expected = expected_shapes(spec)
    for name, shape in expected.items():
        if name not in shapes:
            if name == _HEAD:
                continue
            raise missing(path, name)
        if shapes[name] != shape:
            got = f"tensor '{names[name]}' is {list(shapes[name])}, the config asks for {list(shape)}"
            raise HsfError(UNREADABLE, path, got, "use config and weights of one export")
    for name in shapes.keys() - expected.keys() - {_EMBEDDING, *_MAPS}:
        got = f"tensor '{names[name]}' is not supported: fc joins {spec.channels} channels"
        raise HsfError(UNSUPPORTED, path, got, "evaluate it with the trainer's own code")


def _assemble(
    spec: DrafterSpec, own: dict[str, Tensor], embedding: Tensor, target: Target, path: Path
) -> DrafterWeights:
    vocabulary = target_ids(spec.draft_vocab_size, own.get("d2t"), own.get("t2d"), target.vocab_size, path)
    frequencies, factor = inverse_frequencies(spec.rope, spec.head_dim, path / "config.json")
    head = own[_HEAD] if _HEAD in own else target.lm_head()
    if head.shape[1] != spec.hidden_size:
        raise missing(path, _HEAD)
    return DrafterWeights(
        spec=spec,
        layer={part: own[f"layer.{part}.weight"] for part in LAYER},
        fc=own["fc.weight"],
        norm=own["norm.weight"],
        head=head[: spec.draft_vocab_size],
        embedding=embedding,
        target_ids=vocabulary,
        frequencies=frequencies,
        rope_factor=factor,
        input_norm=own.get("input_norm.weight"),
        fc_norms=tuple(own[f"fc_norm.{i}.weight"] for i in range(spec.channels)) if spec.fc_norm else (),
    )


def _embedding(
    spec: DrafterSpec, own: dict[str, Tensor], target: Target, path: Path
) -> tuple[Tensor, Literal["target", "drafter"], float | None]:
    """The embedding to use, whose it is, and the share of the drafter's own rows that differ from the target's."""
    mine = own.get(_EMBEDDING)
    if spec.hidden_size != spec.target_hidden_size:
        if mine is None or mine.shape[1] != spec.hidden_size:
            raise missing(path, _EMBEDDING)
        return mine, "drafter", None
    theirs = target.embedding()
    if mine is None:
        return theirs, "target", None
    if mine.shape[1] != spec.hidden_size:
        got = f"tensor '{_EMBEDDING}' is {list(mine.shape)}, the config's width is {spec.hidden_size}"
        raise HsfError(UNREADABLE, path, got, "use config and weights of one export")
    return theirs, "target", _rows_differ(mine, theirs)


def _rows_differ(mine: Tensor, theirs: Tensor) -> float:
    rows = min(len(mine), len(theirs))
    differ = 0
    for low in range(0, rows, 4096):
        x, y = mine[low : min(low + 4096, rows)].float(), theirs[low : min(low + 4096, rows)].float()  # [C, H]
        near = (x - y).abs() <= _ROUNDING * y.abs() + 1e-9
        differ += int((~near.all(dim=1)).sum())  # NaN is near nothing
    return differ / rows


def _move(weights: DrafterWeights, dtype: torch.dtype, device: torch.device) -> DrafterWeights:
    """The same weights in one dtype on one device; token ids and rotary angles keep their dtype."""

    def put(x: Tensor) -> Tensor:
        return x.to(device=device, dtype=dtype)

    return replace(
        weights,
        layer={part: put(x) for part, x in weights.layer.items()},
        fc=put(weights.fc),
        norm=put(weights.norm),
        head=put(weights.head),
        embedding=weights.embedding.to(device),  # rows are cast when they are looked up
        target_ids=weights.target_ids.to(device),
        frequencies=weights.frequencies.to(device),
        input_norm=None if weights.input_norm is None else put(weights.input_norm),
        fc_norms=tuple(put(x) for x in weights.fc_norms),
    )
