"""The target model as files: its geometry, and the few weights that evidence needs.

Reads ``config.json`` and single tensors. It never executes a remote-code config and never builds the model.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hsforensics.errors import HsfError
from hsforensics.models.checkpoint import Checkpoint, open_checkpoint, read_json

if TYPE_CHECKING:
    from torch import Tensor

_CODE = "target-unreadable"
_TEXT_CONFIG_KEYS = ("text_config", "language_config", "llm_config", "thinker_config")
_PADDING_KEYS = ("pad_token_id", "eos_token_id")
_UNIT_OFFSET_NORMS = ("gemma", "gemma2", "gemma3", "gemma3_text", "qwen3_next")  # y = n * (1 + w), not n * w


@dataclass(frozen=True)
class Target:
    """A target model's directory.

    Attributes:
        path: The directory.
        wrapper_class: ``architectures[0]`` of the config: the class that an engine loads.
        inner_class: The class of the language model inside; equal to ``wrapper_class`` for text-only models.
        layers: L, the number of decoder layers.
        hidden_size: H, the width of a state.
        vocab_size: Rows of the embedding, per config.
        norm_eps: Epsilon of the final RMS norm.
        config_sha256: Hash of the config's bytes.
        padding_ids: Padding and end tokens, per config.
    """

    path: Path
    wrapper_class: str
    inner_class: str
    layers: int
    hidden_size: int
    vocab_size: int
    norm_eps: float
    norm_offset: float
    config_sha256: str
    padding_ids: frozenset[int] = frozenset()

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The weights, listed on first use."""
        return open_checkpoint(self.path, _CODE)

    def embedding_rows(self, token_ids: Tensor) -> Tensor:
        """Embedding rows of the given tokens: [T] int64 -> [T, H]; state 0 up to a constant scale."""
        return self.checkpoint.rows(self._find("embed_tokens.weight"), token_ids)

    def embedding(self) -> Tensor:
        """The whole embedding table, [V, H]."""
        return self.checkpoint.tensor(self._find("embed_tokens.weight"))

    def norm_weight(self) -> Tensor:
        """The final norm's gain, [H] fp32: with ``1 +`` added where the architecture's norm adds it."""
        return self.checkpoint.tensor(self._find("norm.weight")).float() + self.norm_offset

    def lm_head(self) -> Tensor:
        """The output head, [V, H]; the embedding where the two are tied."""
        name = self._find("lm_head.weight", required=False)
        return self.checkpoint.tensor(name) if name else self.embedding()

    def _find(self, suffix: str, *, required: bool = True) -> str:
        """The shortest tensor name ``[prefix.]suffix`` that is neither inside a layer nor in a vision tower."""
        names = [n for n in self.checkpoint.tensors if n == suffix or n.endswith("." + suffix)]
        names = [n for n in names if ".layers." not in n and "vision" not in n and "visual" not in n]
        if names:
            return min(names, key=len)
        if required:
            raise HsfError(_CODE, self.path, f"its weights hold no '{suffix}'", "use a whole checkpoint")
        return ""


def load_target(path: Path) -> Target:
    """Read a target model's geometry from its directory.

    Raises:
        HsfError: The directory, its ``config.json``, or a needed key is missing.
    """
    if not path.is_dir():
        raise HsfError("not-found", path, "no such model directory", "download the model and give its local directory")
    file = path / "config.json"
    outer = read_json(file, _CODE)
    inner = _language_config(outer)
    wrapper = _first_architecture(outer) or str(outer.get("model_type", "unknown"))
    return Target(
        path=path,
        wrapper_class=wrapper,
        inner_class=_first_architecture(inner) or wrapper,
        layers=_positive(inner, "num_hidden_layers", file),
        hidden_size=_positive(inner, "hidden_size", file),
        vocab_size=_positive(inner, "vocab_size", file),
        norm_eps=float(inner.get("rms_norm_eps", 1e-6)),
        norm_offset=1.0 if inner.get("model_type") in _UNIT_OFFSET_NORMS else 0.0,
        config_sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        padding_ids=_token_ids(outer, inner),
    )


def _language_config(config: dict[str, Any]) -> dict[str, Any]:
    """The language model's part of a config: nested for multimodal wrappers, the config itself otherwise."""
    for key in _TEXT_CONFIG_KEYS:
        part = config.get(key)
        if isinstance(part, dict) and "num_hidden_layers" not in config:
            return _language_config(part)
    return config


def _token_ids(*configs: dict[str, Any]) -> frozenset[int]:
    """Ids under the keys for padding and end; a config may hold one, several, null, or nonsense."""
    found = (config.get(key) for config in configs for key in _PADDING_KEYS)
    listed = (value if isinstance(value, list) else [value] for value in found)
    return frozenset(item for items in listed for item in items if type(item) is int and item >= 0)


def _first_architecture(config: dict[str, Any]) -> str | None:
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else None


def _positive(config: dict[str, Any], key: str, file: Path) -> int:
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise HsfError(_CODE, file, f"'{key}' must be a positive integer, got {value!r}", "use the target's own config")
    return value
