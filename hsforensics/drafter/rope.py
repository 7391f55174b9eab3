"""Rotary positions of the drafter's attention: read from its config, computed in fp32, applied by halves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hsforensics.drafter.fields import json_object, positive_integer, positive_number, shown, wrong
from hsforensics.errors import HsfError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor

_PLAIN = ("default", "mrope")  # mrope turns every section by the same position when there is only text
_SCALED = ("linear", "llama3", "yarn")  # no dependence on the length of the sequence
_DEFAULT_THETA = 10000.0
_DEFAULT_POSITIONS = 2048
_LARGEST = 1e9  # of a parameter; the largest in use is a number of positions


@dataclass(frozen=True)
class Rope:
    """Rotary embedding of a config.

    Attributes:
        theta: Base of the wavelengths.
        scaling: ``rope_type`` and its parameters, or ``None`` for the plain embedding.
        max_positions: ``max_position_embeddings``, which some scalings need.
    """

    theta: float
    scaling: dict[str, Any] | None
    max_positions: int


def read_rope(layer: Mapping[str, Any], where: Path) -> Rope:
    """Read the rotary embedding from ``rope_theta`` and ``rope_scaling``, or from the newer ``rope_parameters``.

    Raises:
        HsfError: ``drafter-unreadable`` for a value that cannot be right, ``drafter-unsupported`` for a kind of scaling
            that depends on the sequence or on part of a head.
    """
    parameters = {**json_object(layer, "rope_scaling", where), **json_object(layer, "rope_parameters", where)}
    theta = positive_number(layer, "rope_theta", where, _DEFAULT_THETA)
    theta = positive_number(parameters, "rope_theta", where, theta)
    positions = positive_integer(layer, "max_position_embeddings", where, _DEFAULT_POSITIONS)
    parameters.pop("rope_theta", None)
    old_name = parameters.pop("type", None)
    kind = parameters.pop("rope_type", None) or old_name or "default"
    partial = parameters.get("partial_rotary_factor", layer.get("partial_rotary_factor"))
    partial = 1.0 if partial is None else partial
    if kind not in _PLAIN + _SCALED or partial != 1.0 or any(isinstance(v, dict) for v in parameters.values()):
        got = f"rotary embedding of type {shown(kind)} with partial_rotary_factor {shown(partial)} is not supported"
        raise HsfError("drafter-unsupported", where, got, f"supported: {', '.join(_PLAIN + _SCALED)} over whole heads")
    if kind in _PLAIN:
        return Rope(theta, None, positions)
    for name, value in parameters.items():
        _check_parameter(name, value, where)
    return Rope(theta, {"rope_type": kind, **parameters}, positions)


def _check_parameter(name: str, value: object, where: Path) -> None:
    """Parameters of a scaling are numbers, switches and lists of numbers; what they mean, transformers knows."""
    values = value if isinstance(value, list) else [value]
    for item in values:
        if item is not None and not (isinstance(item, int | float) and -_LARGEST < item < _LARGEST):
            raise wrong(f"rope_scaling.{name}", "a number", item, where)


def inverse_frequencies(rope: Rope, head_dim: int, where: Path) -> tuple[Tensor, float]:
    """Angles per position, [head_dim / 2] fp32, and the factor that the rotated vectors are multiplied with.

    Raises:
        HsfError: Scaling needs transformers and it is not installed, or a parameter of it is missing or absurd.
    """
    import torch

    if rope.scaling is None:
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim  # [d/2]
        return rope.theta**-exponents, 1.0
    frequencies, factor = _scaled(rope, rope.scaling, head_dim, where)
    if frequencies.shape != (head_dim // 2,) or not bool(frequencies.isfinite().all()) or not 0 < factor < torch.inf:
        raise _wrong_scaling(rope, where, "it gives no finite angles")
    return frequencies, factor


def _scaled(rope: Rope, scaling: dict[str, Any], head_dim: int, where: Path) -> tuple[Tensor, float]:
    """Frequencies and factor as transformers computes them."""
    import torch

    try:
        from transformers import LlamaConfig
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    except ImportError:
        need = f"rope scaling of type '{scaling['rope_type']}' is computed by transformers, which is not installed"
        raise HsfError("dependency-missing", where, need, "pip install 'hsforensics[hf]'") from None
    try:
        config = LlamaConfig(
            hidden_size=head_dim,
            num_attention_heads=1,
            head_dim=head_dim,
            max_position_embeddings=rope.max_positions,
            rope_theta=rope.theta,
            rope_scaling=dict(scaling),
        )
        frequencies, factor = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, torch.device("cpu"))
        return frequencies.float(), float(factor)
    except Exception as error:  # noqa: BLE001 (foreign validation of a stranger's values, with classes of its own)
        raise _wrong_scaling(rope, where, f"{type(error).__name__}: {error}") from None


def _wrong_scaling(rope: Rope, where: Path, why: str) -> HsfError:
    got = f"rope scaling {shown(rope.scaling)} is incomplete or wrong ({why.splitlines()[0][:120]})"
    return HsfError("drafter-unreadable", where, got, "restore the config's rope_scaling")


def rotate(x: Tensor, positions: Tensor, frequencies: Tensor, factor: float) -> Tensor:
    """Turn queries or keys by their positions.

    Args:
        x: [heads, R, d], any float dtype.
        positions: [R] int64.
        frequencies: [d/2] fp32, and
        factor: as from ``inverse_frequencies``.

    Returns:
        [heads, R, d] in the dtype of ``x``.
    """
    import torch

    angles = positions[:, None].float() * frequencies  # [R, d/2]
    cos, sin = (factor * angles.cos(), factor * angles.sin())
    left, right = x.float().chunk(2, dim=-1)  # [heads, R, d/2] each
    turned = torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)
    return turned.to(x.dtype)
