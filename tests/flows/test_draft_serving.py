"""The predicted accept length is what speculative decoding of the tiny target really does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsforensics.drafter.weights import DrafterWeights, load_drafter
from hsforensics.flows.draft_eval import draft_eval
from hsforensics.models.target import load_target
from tests.drafter.engine import Engine
from tests.flows.draft_case import TRAINED, Case, make_case
from tests.tiny import Tiny

STEPS = 3
PROMPT, LENGTH = 5, 44


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("serving"), greedy_texts=12)


def draft(weights: DrafterWeights, tokens: list[int], states: dict[object, Tensor], row: int) -> list[int]:
    """K proposals of a chain that starts at ``row``, on a KV cache filled with the true prefix."""
    engine = Engine(weights)
    for t in range(row + 1):
        feature, logits = engine.forward(tokens[t + 1], engine.fuse([states[s][t].double() for s in TRAINED]), t)
    found = [int(weights.target_ids[logits.argmax()])]
    while len(found) < STEPS:
        feature, logits = engine.forward(found[-1], feature, row + len(found))
        found.append(int(weights.target_ids[logits.argmax()]))
    return found


def serve(target: Tiny, weights: DrafterWeights, prompt: Tensor, length: int) -> tuple[list[int], list[int]]:
    """Speculative decoding of one request: (all tokens, tokens emitted by each verify step)."""
    tokens = [*prompt.tolist(), target.choice_after(prompt)]
    emitted = []
    while len(tokens) < length:
        row = len(tokens) - 2
        proposals = draft(weights, tokens, dict(target.states(torch.tensor(tokens[:-1]))), row)
        with torch.inference_mode():
            logits = target.model(torch.tensor([[*tokens, *proposals]])).logits[0]  # one verify forward
        choices = logits.argmax(dim=-1)[row + 1 :].tolist()  # after the last token, and after each proposal
        run = 0
        while run < STEPS and proposals[run] == choices[run]:
            run += 1
        tokens += choices[: run + 1]
        emitted.append(run + 1)
    return tokens, emitted


def test_accept_length_equals_speculative_decoding(case: Case, tmp_path: Path) -> None:
    target = load_target(case.target.path)
    weights = load_drafter(case.drafter, target, torch.float32, torch.device("cpu")).weights
    generator = torch.Generator().manual_seed(9)
    texts, emitted = [], []
    for _ in range(3):
        prompt = torch.randint(0, 64, (PROMPT,), generator=generator)
        tokens, steps = serve(case.target, weights, prompt, LENGTH)
        assert tokens[:LENGTH] == case.target.write(prompt, LENGTH).tolist()  # drafting never changes the text
        texts.append(torch.tensor(tokens[:LENGTH]))
        known = [PROMPT + 1 + sum(steps[:i]) for i in range(len(steps))]  # tokens before each verify step
        emitted += [n for n, before in zip(steps, known, strict=True) if before - 2 + STEPS <= LENGTH - 1]
    bank = case.target.bank(tmp_path / "bank", texts)
    for feed in ("text", "own"):
        run = draft_eval(case.drafter, case.target.path, bank, wirings=[TRAINED], steps=STEPS, feed=feed).runs[0]
        found = run.accept_length
        assert found.verify_steps == len(emitted)
        assert found.value == sum(emitted) / len(emitted)
        assert 1.0 < found.value < STEPS + 1
        assert found.on_policy > 0.85
