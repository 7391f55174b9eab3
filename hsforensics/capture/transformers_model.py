"""Loads a target through transformers and finds the parts that hooks are put on. Never runs a repository's own code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from hsforensics.errors import HsfError

if TYPE_CHECKING:
    import torch
    from torch.nn import Module

    from hsforensics.models.target import Target

_CODE = "target-unreadable"
_LAYER_NAMES = ("layers", "h", "blocks")
_NORM_NAMES = ("norm", "final_layernorm", "ln_f", "final_layer_norm")

DTYPES: Final[dict[str, str]] = {"bf16": "bfloat16", "fp32": "float32"}
"""dtype as users write it -> as torch names it."""


@dataclass(frozen=True)
class ReferenceModel:
    """A target that transformers runs, in evaluation mode.

    Attributes:
        target: Its files.
        decoder: The language model without its head; called with [1, T] token ids.
        layers: Its L decoder layers.
        norm: Its final norm.
        dtype: ``bfloat16`` or ``float32``.
        device: Where it runs.
        version: Version of transformers.
    """

    target: Target
    decoder: Module
    layers: tuple[Module, ...]
    norm: Module
    dtype: str
    device: torch.device
    version: str


def load_reference(target: Target, dtype: Literal["bf16", "fp32"] = "bf16", device: str = "auto") -> ReferenceModel:
    """Load a target with its weights.

    Args:
        target: Its files.
        dtype: dtype that everything is computed in.
        device: ``auto`` takes CUDA when there is some, else the CPU; or a device that torch knows.

    Raises:
        HsfError: ``dependency-missing`` without transformers; ``usage`` for an unknown device; ``target-unreadable``
            when transformers cannot load the whole model without running code from its directory, or when its
            structure is not a stack of layers under a final norm.
    """
    import torch

    version = _transformers_version()
    place = pick_device(device)
    with enough_memory(target):
        model = _load(target, getattr(torch, DTYPES[dtype])).to(place).eval()
    decoder = find_decoder(model, target)
    layers, norm = _child(decoder, _LAYER_NAMES), _child(decoder, _NORM_NAMES)
    if len(layers) != target.layers:
        message = f"its config says {target.layers} layers, transformers built {len(layers)}"
        raise HsfError(_CODE, target.path, message, "use the config that belongs to these weights")
    return ReferenceModel(target, decoder, tuple(layers), norm, DTYPES[dtype], place, version)


@contextmanager
def enough_memory(target: Target) -> Iterator[None]:
    """Turn the device's "out of memory" into an error that says what to do."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        message = f"it does not fit the device's memory ({str(error).splitlines()[0][:120]})"
        raise HsfError(_CODE, target.path, message, "use --device cpu, a larger device, or --max-tokens") from None


def pick_device(name: str) -> torch.device:
    """``auto`` or a device's name -> a device that exists.

    Raises:
        HsfError: ``usage``.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # AssertionError: torch was built without CUDA
        first = str(error).splitlines()[0]
        raise HsfError("usage", "--device", f"{name!r} is not usable here ({first})", "use --device auto") from None


def find_decoder(model: Any, target: Target) -> Any:
    """The module that owns the layers and the final norm, however deep a wrapper hides it.

    Raises:
        HsfError: ``target-unreadable``: there is none.
    """
    candidates = [model.get_decoder()] if hasattr(model, "get_decoder") else []
    names = ("model", "language_model", "model.language_model", "transformer")
    candidates += [_descend(model, name) for name in names]
    for module in candidates:
        if module is not None and _child(module, _LAYER_NAMES) is not None and _child(module, _NORM_NAMES) is not None:
            return module
    message = f"{type(model).__name__} has no stack of layers under a final norm that this version knows"
    raise HsfError(_CODE, target.path, message, "capture a live engine that serves it instead")


def _descend(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name, None)
    return module


def _child(module: Any, names: tuple[str, ...]) -> Any:
    return next((getattr(module, name) for name in names if hasattr(module, name)), None)


def _transformers_version() -> str:
    try:
        import transformers
    except ImportError:
        message = "transformers is needed to compute reference states and is not installed"
        raise HsfError(
            "dependency-missing", "--engine transformers", message, "pip install 'hsforensics[hf]'"
        ) from None
    return str(transformers.__version__)


def _load(target: Target, dtype: Any) -> Any:
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        with _quiet():
            model, info = AutoModelForCausalLM.from_pretrained(
                target.path, dtype=dtype, trust_remote_code=False, local_files_only=True, output_loading_info=True
            )
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        ImportError,
        RuntimeError,
        SafetensorError,
    ) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        remedy = "use a whole checkpoint of a class that transformers has, or capture a live engine"
        raise HsfError(_CODE, target.path, f"transformers cannot load it ({first})", remedy) from None
    # transformers fills what is missing with random numbers; the head is not used here
    missing = sorted(name for name in info["missing_keys"] if not name.startswith("lm_head"))
    if missing:
        message = f"its weights lack {len(missing)} tensors, such as {missing[0]}"
        raise HsfError(_CODE, target.path, message, "use a whole checkpoint")
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence transformers' progress bars and log lines, and give its settings back afterwards."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
