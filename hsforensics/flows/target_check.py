"""Whether a capture and a target's files belong together: geometry, config, and the one state that the files hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hsforensics.capture.manifest import ManifestHeader
from hsforensics.errors import HsfError
from hsforensics.findings import finding
from hsforensics.flows.bank import Bank, BankRequest
from hsforensics.matching.cheap import EMBEDDING_COSINE, cosine_to
from hsforensics.models.target import Target
from hsforensics.states import Finding

if TYPE_CHECKING:
    from torch import Tensor

_CODE = "target-foreign"
_REQUESTS = 4  # that are read for the comparison of values
_ROWS = 256  # of each


def check_header(held: ManifestHeader, target: Target, width: int) -> list[Finding]:
    """``check_target`` for a fingerprint, which has no values to compare; ``width`` is H of the rows it was made from.

    Raises:
        HsfError: As ``check_target``.
    """
    _check_geometry(replace(held, hidden_size=width), target)
    return _other_config(held, target)


def check_target(capture: Bank, target: Target) -> list[Finding]:
    """Compare a capture with the target that is given beside it.

    The manifest says which target was captured: class, layers and width must agree. Where the config's hash differs
    or the values of state 0 deny the target's embedding, a finding says so. State 0 is compared by cosine, which is
    blind to an embedding multiplier; the median over rows is blind to the rows of images.

    Returns:
        No finding, or ``target-differs``: an error if values deny the target, a warning if only its config differs.

    Raises:
        HsfError: ``target-foreign`` for another class, number of layers or width.
    """
    held = capture.manifest
    _check_geometry(held, target)
    cosine = _embedding_cosine(capture, target)
    if cosine is not None and cosine < EMBEDDING_COSINE:
        message = (
            "state 0 of the capture is not the embedding of --target for the same tokens: another model was captured"
        )
        proof = f"median cosine {cosine:.3f} with the embedding rows, at least {EMBEDDING_COSINE} is expected"
        return [finding("target-differs", str(target.path), message, proof, severity="error")]
    return _other_config(held, target)


def _other_config(held: ManifestHeader, target: Target) -> list[Finding]:
    if held.target_config_sha256 != target.config_sha256:
        message = f"config.json of {target.path} is not the one that the capture was made with"
        proof = f"sha256 {held.target_config_sha256[:12]}... captured, {target.config_sha256[:12]}... given"
        return [finding("target-differs", str(target.path / "config.json"), message, proof)]
    return []


def _check_geometry(held: ManifestHeader, target: Target) -> None:
    pairs = (("L", held.layers, target.layers), ("width", held.hidden_size, target.hidden_size))
    wrong = [(name, str(there), str(here)) for name, there, here in pairs if there != here]
    classes = (held.target_wrapper, held.target_inner), (target.wrapper_class, target.inner_class)
    if not wrong and not set(classes[0]) & set(classes[1]):
        wrong = [("class", " > ".join(dict.fromkeys(classes[0])), " > ".join(dict.fromkeys(classes[1])))]
    if wrong:
        there = ", ".join(f"{name} {value}" for name, value, _ in wrong)
        here = ", ".join(f"{name} {value}" for name, _, value in wrong)
        remedy = f"give the target of the capture: {held.target_path}"
        raise HsfError(_CODE, target.path, f"the capture's target has {there}; this one has {here}", remedy)


def _embedding_cosine(capture: Bank, target: Target) -> float | None:
    """Median cosine of state 0 with the embedding rows of its tokens; ``None`` where there is nothing to compare."""
    import torch

    if 0 not in capture.manifest.states:
        return None
    parts = [_cosines(capture.read(entry), target) for entry in capture.requests[:_REQUESTS]]
    cosines = torch.cat([part for part in parts if part is not None] or [torch.empty(0)])  # [N]
    return float(cosines.median()) if len(cosines) else None


def _cosines(request: BankRequest, target: Target) -> Tensor | None:
    """Cosines of the finite rows whose tokens the target has; a token that it lacks is for others to say."""
    tokens, values = request.token_ids[:_ROWS], request.state(0)[:_ROWS]  # [R], [R, H]
    if values.shape != (len(tokens), target.hidden_size):
        return None
    usable = values.float().isfinite().all(dim=1) & (tokens >= 0) & (tokens < target.vocab_size)
    if not bool(usable.any()):
        return None
    rows = target.embedding_rows(tokens[usable])  # [R', H]
    if rows.shape[1:] != (target.hidden_size,):
        got = f"its embedding has rows of {list(rows.shape[1:])}, the config promises {target.hidden_size}"
        raise HsfError("target-unreadable", target.path, got, "use a whole checkpoint with its own config")
    return cosine_to(values[usable], rows)
