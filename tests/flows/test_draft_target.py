"""The channel that all figures of ``draft-eval`` rest on is held against the text, never taken for its place alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from hsforensics.flows.draft_data import Reading
from hsforensics.flows.draft_eval import draft_eval
from hsforensics.flows.draft_target import PROBES, TargetCheck
from hsforensics.results import DraftEvalResult
from hsforensics.states import POSTNORM, Finding, State
from tests.drafter.makers import CONFIG, make_spec, make_tensors, write_drafter
from tests.tiny import HIDDEN, LAYERS, VOCAB, Tiny, make_tiny

SAMPLES, TOKENS, PROMPT = 9, 40, 4


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make_tiny(tmp_path_factory.mktemp("draft-target") / "target")


@pytest.fixture(scope="module")
def drafter(target: Tiny) -> Path:
    tensors = make_tensors(make_spec(hidden_size=HIDDEN, target_hidden_size=HIDDEN))
    tensors["d2t"] = torch.zeros_like(tensors["d2t"])
    return write_drafter(target.path.parent / "drafter", tensors, CONFIG | {"hidden_size": HIDDEN})


@pytest.fixture(scope="module")
def own(target: Tiny) -> list[torch.Tensor]:
    """Texts that the target wrote greedily, but for short prompts; ``write`` masks token 0 as padding."""
    generator = torch.Generator().manual_seed(4)
    prompts = [torch.randint(1, VOCAB, (PROMPT,), generator=generator) for _ in range(SAMPLES)]
    return [target.write(prompt, TOKENS) for prompt in prompts]


@pytest.fixture(scope="module")
def foreign() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(0, VOCAB, (TOKENS,), generator=generator) for _ in range(SAMPLES)]


def dump(path: Path, target: Tiny, texts: Sequence[torch.Tensor], states: Sequence[State]) -> Path:
    path.mkdir()
    for number, ids in enumerate(texts):
        bank = target.states(ids)
        mask = (torch.arange(len(ids)) >= PROMPT).long()
        sample = {"input_ids": ids, "hidden_states": [bank[state] for state in states], "loss_mask": mask}
        torch.save(sample, path / f"data_{number}.pt")
    return path


def evaluate(drafter: Path, target: Tiny, data: Path, **options: Any) -> DraftEvalResult:
    return draft_eval(drafter, target.path, data, device="cpu", steps=2, **{"channels": [(0, 1, 2)], **options})


def doubts(result: DraftEvalResult) -> list[Finding]:
    return [item for item in result.findings if item.code in ("target-unchecked", "target-not-final")]


def test_the_last_state_before_the_norm_is_confirmed_by_text_of_its_own(
    drafter: Path, target: Tiny, own: list[torch.Tensor], tmp_path: Path
) -> None:
    result = evaluate(drafter, target, dump(tmp_path / "d", target, own, (1, 2, 4, LAYERS)))
    assert doubts(result) == []
    (note,) = (item for item in result.findings if item.code == "target-prenorm")
    share = result.runs[0].accept_length.on_policy
    assert share == 1.0
    rows = SAMPLES * (TOKENS - PROMPT)
    assert f"the head's choice from channel 3 is the next token in {share:.1%} of {rows} rows" in note.evidence


def test_postnorm_shows_in_its_own_values(
    drafter: Path, target: Tiny, foreign: list[torch.Tensor], tmp_path: Path
) -> None:
    assert doubts(evaluate(drafter, target, dump(tmp_path / "d", target, foreign, (1, 2, 4, POSTNORM)))) == []


@pytest.mark.parametrize("named", [None, 3])
def test_another_channel_that_writes_the_text_is_an_error_that_names_it(
    named: int | None, drafter: Path, target: Tiny, own: list[torch.Tensor], tmp_path: Path
) -> None:
    """A dump whose last two channels are swapped: the labels would come from state 3."""
    data = dump(tmp_path / "d", target, own, (1, 2, LAYERS, 3))
    (note,) = doubts(evaluate(drafter, target, data, target_channel=named))
    assert (note.code, note.severity, note.where) == ("target-not-final", "error", "channel 3")
    assert "channel 2 reproduces more of the text" in note.message
    assert "--target-channel 2" in note.remedy
    assert doubts(evaluate(drafter, target, data, target_channel=2)) == []


@pytest.mark.parametrize("state", [0, 3, 4])
def test_an_earlier_state_is_never_taken_for_the_last_one_without_a_word(
    state: State, drafter: Path, target: Tiny, own: list[torch.Tensor], tmp_path: Path
) -> None:
    (note,) = doubts(evaluate(drafter, target, dump(tmp_path / "d", target, own, (1, 2, 3, state))))
    assert note.severity in ("warning", "error")
    assert "of the text" in note.message or "nothing but its place" in note.message


def test_foreign_text_cannot_confirm_the_last_state_and_accuses_no_channel(
    drafter: Path, target: Tiny, foreign: list[torch.Tensor], tmp_path: Path
) -> None:
    (note,) = doubts(evaluate(drafter, target, dump(tmp_path / "d", target, foreign, (1, 2, 4, LAYERS))))
    assert (note.code, note.severity) == ("target-unchecked", "warning")
    assert f"of {SAMPLES * (TOKENS - PROMPT)} rows, from channel" in note.evidence


def test_a_dull_text_that_every_channel_reproduces_confirms_nothing(
    drafter: Path, target: Tiny, own: list[torch.Tensor], tmp_path: Path
) -> None:
    data = dump(tmp_path / "d", target, own, (1, 2, LAYERS, LAYERS))
    (note,) = doubts(evaluate(drafter, target, data))
    assert (note.code, "from channel 2 in 100.0%" in note.evidence) == ("target-unchecked", True)


def test_one_sequence_accuses_no_channel(drafter: Path, target: Tiny, own: list[torch.Tensor], tmp_path: Path) -> None:
    data = dump(tmp_path / "d", target, own[:1], (1, 2, LAYERS, 3))
    assert [item.code for item in doubts(evaluate(drafter, target, data))] == ["target-unchecked"]


def reading(hits: int, channels: Sequence[int] = (0, 3), mask: torch.Tensor | None = None) -> Reading:
    """Ten tokens; a channel's first value in a row is the token that it chooses there."""
    ids = torch.arange(11)
    final = torch.where(torch.arange(11) < hits, ids + 1, -1).float()[:, None]
    held = {number: final if number == 3 else torch.full_like(final, -1) for number in channels}
    return Reading("s", ids, held, final, "channel 3", True, mask, "float32")


def choose(values: torch.Tensor) -> torch.Tensor:
    return values[:, 0].long()


def test_counts_are_over_rows_with_a_next_token_and_under_the_mask() -> None:
    check = TargetCheck()
    for hits, mask in ((8, None), (8, (torch.arange(11) >= 9).long())):
        item = reading(hits, mask=mask)
        check.add(item, choose(item.final), choose)
    assert (check.hits, check.rows, dict(check.others)) == ([8, 0], [10, 2], {"channel 0": [0, 0]})
    assert check.share == 8 / 12


def test_other_channels_are_probed_in_some_sequences_only() -> None:
    check = TargetCheck()
    for _ in range(PROBES + 3):
        check.add(reading(5), choose(reading(5).final), choose)
    assert (len(check.hits), len(check.others["channel 0"])) == (PROBES + 3, PROBES)


def test_a_text_without_a_trained_row_confirms_nothing() -> None:
    check = TargetCheck()
    item = reading(9, mask=torch.zeros(11))
    check.add(item, choose(item.final), choose)
    (note,) = check.findings(0)
    assert (note.code, note.evidence) == ("target-unchecked", "no row with a next token that is trained on")
    assert TargetCheck().findings(0) == []
