"""A drafter that was really trained, on the states of a tiny target that really runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fixtures.train_drafter import Plan, read_examples, train_drafter
from hsforensics.capture.store import open_capture
from hsforensics.models.target import load_target
from hsforensics.states import POSTNORM, State
from tests.tiny import LAYERS, VOCAB, Tiny, make_tiny, one_thread

TRAINED: tuple[State, ...] = (1, 2, 4)
SWAPPED: tuple[State, ...] = (2, 1, 4)
EMBEDDING_FIRST: tuple[State, ...] = (0, 1, 2)
TEXTS, TOKENS = 24, 56


@dataclass(frozen=True)
class Case:
    """Target, bank and drafter, and the texts of the bank."""

    target: Tiny
    bank: Path
    drafter: Path
    texts: tuple[Tensor, ...]  # [T] each


def make_case(folder: Path, greedy_texts: int = 0) -> Case:
    """Train a drafter on random token ids, and on texts that the target writes greedily if asked for."""
    target = make_tiny(folder / "target", spread=0.1, sharpness=10.0)
    generator = torch.Generator().manual_seed(1)
    texts = [torch.randint(0, VOCAB, (TOKENS,), generator=generator) for _ in range(TEXTS - greedy_texts)]
    texts += [target.write(torch.randint(0, VOCAB, (4,), generator=generator), TOKENS) for _ in range(greedy_texts)]
    bank = target.bank(folder / "bank", texts)
    plan = Plan(TRAINED, updates=600, rows=TOKENS, rate=1e-2, draft_vocab=48, intermediate=64)
    examples = read_examples(open_capture(bank), plan.wiring)
    with one_thread():
        train_drafter(examples, load_target(target.path), plan, folder / "drafter")
    return Case(target, bank, folder / "drafter", tuple(texts))


def write_dump(case: Case, path: Path, states: Sequence[State] = (*TRAINED, POSTNORM), *, masked: bool = False) -> Path:
    """The bank's states as speculators 0.3 files, with a loss mask over the second half if asked for."""
    path.mkdir(parents=True)
    for index, ids in enumerate(case.texts):
        bank = case.target.states(ids)
        sample: dict[str, object] = {"input_ids": ids, "hidden_states": [bank[state] for state in states]}
        sample["loss_mask"] = (torch.arange(len(ids)) >= len(ids) // 2).long() if masked else torch.ones_like(ids)
        torch.save(sample, path / f"data_{index}.pt")
    return path


LAST: State = LAYERS
"""State L, before the final norm."""
