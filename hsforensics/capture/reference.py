"""The reference bank: every state of the target for given token ids, computed by transformers.

State i is the input of layer i, state L the input of the final norm, and postnorm its output. (The list that
transformers itself returns has postnorm in the place of state L.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from hsforensics.capture.manifest import ManifestHeader, RequestTensors, by_depth
from hsforensics.capture.transformers_model import ReferenceModel, enough_memory
from hsforensics.errors import HsfError
from hsforensics.states import POSTNORM, State

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

Arrivals: TypeAlias = "defaultdict[State, list[Tensor]]"
"""What the hooks have copied so far: for each state the tensors that came, one if all is well."""

_CODE = "target-unreadable"


def bank_states(layers: int, *, middle: bool = False) -> tuple[State, ...]:
    """The states of a whole bank by depth: 0 to L, with ``mid:i`` in between if asked for, and postnorm."""
    middles = [f"mid:{layer}" for layer in range(layers)] if middle else []
    return by_depth([*range(layers + 1), *middles, POSTNORM])


def reference_header(model: ReferenceModel, *, middle: bool = False) -> ManifestHeader:
    """The manifest header of captures that this model fills."""
    target = model.target
    return ManifestHeader(
        kind="reference",
        engine="transformers",
        engine_version=model.version,
        dtype=model.dtype,
        device=str(model.device),
        target_path=str(target.path),
        target_wrapper=target.wrapper_class,
        target_inner=target.inner_class,
        target_config_sha256=target.config_sha256,
        layers=target.layers,
        hidden_size=target.hidden_size,
        states=bank_states(target.layers, middle=middle),
    )


def reference_request(model: ReferenceModel, token_ids: Tensor, *, middle: bool = False) -> RequestTensors:
    """One request of a reference capture: the bank of ``token_ids`` ([T] int64), positions from 0."""
    import torch

    bank = reference_bank(model, token_ids, middle=middle)
    return RequestTensors(token_ids, torch.arange(len(token_ids)), bank)


def reference_bank(model: ReferenceModel, token_ids: Tensor, *, middle: bool = False) -> dict[State, Tensor]:
    """All states of one sequence, by depth.

    Args:
        model: The loaded target.
        token_ids: [T] int64, each below the vocabulary size.
        middle: Also record ``mid:i``, the stream inside each layer after attention.

    Returns:
        State -> [T, H] on the CPU, in the model's dtype.

    Raises:
        HsfError: ``target-unreadable``: the model's class keeps its stream elsewhere than in its layers' inputs.
    """
    import torch

    arrivals: Arrivals = defaultdict(list)
    with torch.no_grad(), enough_memory(model.target), _recording(model, arrivals, middle=middle):
        model.decoder(input_ids=token_ids[None].to(model.device), use_cache=False)
    states = bank_states(len(model.layers), middle=middle)
    bank = {state: _only_arrival(arrivals[state], state, model, len(token_ids)) for state in states}
    if middle and torch.equal(bank["mid:0"], bank[0]):  # attention and MLP read one and the same stream
        raise _no_middle(model)
    return bank


@contextmanager
def _recording(model: ReferenceModel, arrivals: Arrivals, *, middle: bool) -> Iterator[None]:
    """Hooks that copy every state as it passes; removed afterwards."""
    handles = [_on_input(layer, _keeper(arrivals[state])) for state, layer in enumerate(model.layers)]
    handles.append(_on_input(model.norm, _keeper(arrivals[len(model.layers)])))
    keep = _keeper(arrivals[POSTNORM])
    handles.append(model.norm.register_forward_hook(lambda _module, _args, output: keep(output)))
    if middle:
        norms = (norm_before_mlp(layer, model) for layer in model.layers)
        handles += [_on_input(norm, _keeper(arrivals[f"mid:{i}"])) for i, norm in enumerate(norms)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def norm_before_mlp(layer: Module, model: ReferenceModel) -> Any:
    """The norm whose input is the stream after attention and before the MLP.

    Raises:
        HsfError: ``target-unreadable``: this class has no such norm.
    """
    children = dict(layer.named_children())
    if "pre_feedforward_layernorm" in children:
        return children["pre_feedforward_layernorm"]
    # with a norm after the MLP and none before it, "post attention" is a norm of the branch, not of the stream
    if "post_attention_layernorm" in children and "post_feedforward_layernorm" not in children:
        return children["post_attention_layernorm"]
    raise _no_middle(model)


def _no_middle(model: ReferenceModel) -> HsfError:
    message = f"{type(model.layers[0]).__name__} has no stream between attention and MLP, so there is no middle state"
    return HsfError(_CODE, model.target.path, message, "capture without --middle")


def _on_input(module: Module, keep: Callable[[Tensor], None]) -> Any:
    def hook(_module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        keep(args[0] if args else kwargs["hidden_states"])

    return module.register_forward_pre_hook(hook, with_kwargs=True)


def _keeper(arrivals: list[Tensor]) -> Callable[[Tensor], None]:
    def keep(value: Tensor) -> None:
        arrivals.append(value.detach().to("cpu", copy=True))  # at once: a layer may write into its input

    return keep


def _only_arrival(arrivals: list[Tensor], state: State, model: ReferenceModel, rows: int) -> Tensor:
    """The one tensor [1, T, H] that came for a state, as [T, H]; anything else is not the structure we know."""
    wanted = [[1, rows, model.target.hidden_size]]
    got = [list(value.shape) for value in arrivals]
    if got != wanted:
        message = f"{type(model.decoder).__name__}: state {state} must come once as {wanted[0]}, got {got or 'nothing'}"
        raise HsfError(_CODE, model.target.path, message, "capture a live engine that serves it instead")
    return arrivals[0][0]
