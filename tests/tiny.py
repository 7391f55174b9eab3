"""A tiny random Llama that really runs: files, states from transformers' own outputs, and text of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hsforensics.capture.manifest import ManifestHeader, RequestTensors
from hsforensics.capture.store import write_capture
from hsforensics.models.target import load_target
from hsforensics.states import POSTNORM, State

LAYERS, HIDDEN, VOCAB = 5, 32, 64


@contextmanager
def one_thread() -> Iterator[None]:
    """Tensors this small only lose time on a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Tiny:
    """The model's directory; the model itself is loaded on first use."""

    path: Path

    @cached_property
    def model(self) -> Any:
        from transformers import LlamaForCausalLM

        return LlamaForCausalLM.from_pretrained(self.path, dtype=torch.float32).eval()

    def choice_after(self, token_ids: Tensor) -> int:
        """The target's greedy next token after [T] tokens."""
        with torch.inference_mode():
            return int(self.model(token_ids[None]).logits[0, -1].argmax())

    def write(self, prompt: Tensor, length: int, temperature: float = 0.0) -> Tensor:
        """The prompt continued to ``length`` tokens: greedily, or sampled under torch's seed."""
        sampling = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
        with torch.inference_mode():
            limits = {"max_length": length, "min_length": length, "pad_token_id": 0, "eos_token_id": None}
            return self.model.generate(prompt[None], **limits, **sampling)[0].clone()

    def states(self, token_ids: Tensor) -> dict[State, Tensor]:
        """States 0 to L and postnorm of [T] tokens, each [T, H] fp32; transformers puts postnorm where state L was."""
        last: list[Tensor] = []
        hook = self.model.model.norm.register_forward_pre_hook(lambda _module, args: last.append(args[0]))
        with torch.inference_mode():
            found = self.model(token_ids[None], output_hidden_states=True).hidden_states
        hook.remove()
        names: list[State] = [*range(LAYERS + 1), POSTNORM]
        return {name: value[0].clone() for name, value in zip(names, (*found[:-1], *last, found[-1]), strict=True)}

    def bank(self, path: Path, texts: Iterable[Tensor]) -> Path:
        """A capture of the texts' states: 0 to L and postnorm."""
        header = ManifestHeader(
            kind="reference",
            engine="transformers",
            engine_version="5.0",
            dtype="float32",
            device="cpu",
            target_path="target",
            target_wrapper="LlamaForCausalLM",
            target_inner="LlamaForCausalLM",
            target_config_sha256=load_target(self.path).config_sha256,
            layers=LAYERS,
            hidden_size=HIDDEN,
            states=(*range(LAYERS + 1), POSTNORM),
        )
        requests = [RequestTensors(ids, torch.arange(len(ids)), self.states(ids)) for ids in texts]
        write_capture(path, header, requests)
        return path


def make_tiny(path: Path, seed: int = 0, spread: float = 0.3, sharpness: float = 1.0) -> Tiny:
    """Write a random Llama whose layers matter and whose logits are peaked.

    Args:
        path: Directory to create.
        seed: Of the weights.
        spread: Standard deviation of the weights; large layers move the stream far.
        sharpness: Factor on the head.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        hidden_size=HIDDEN,
        intermediate_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCAB,
        max_position_embeddings=512,
        initializer_range=spread,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    model.lm_head.weight.data *= sharpness
    model.model.norm.weight.data += 0.5 * torch.randn(HIDDEN)  # a gain of ones would not move the argmax
    model.save_pretrained(path)
    return Tiny(path)
