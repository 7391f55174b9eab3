"""The data of ``draft-eval``: torn samples, copies, masks, unfinished captures."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from hsforensics.capture.store import open_capture
from hsforensics.errors import HsfError
from hsforensics.flows.draft_eval import draft_eval
from hsforensics.flows.draft_findings import plural
from hsforensics.results import DraftEvalResult
from hsforensics.states import POSTNORM, Finding, State
from tests.drafter.makers import CONFIG, make_spec, make_tensors, write_drafter
from tests.tiny import HIDDEN, VOCAB, Tiny, make_tiny

SAMPLES, TOKENS = 9, 20
STATES: tuple[State, ...] = (1, 2, 4, POSTNORM)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make_tiny(tmp_path_factory.mktemp("draft-data") / "target", spread=0.1, sharpness=10.0)


@pytest.fixture(scope="module")
def drafter(target: Tiny) -> Path:
    spec = make_spec(hidden_size=HIDDEN, target_hidden_size=HIDDEN)
    config = CONFIG | {"hidden_size": HIDDEN}
    tensors = make_tensors(spec)
    tensors["d2t"] = torch.zeros_like(tensors["d2t"])
    return write_drafter(target.path.parent / "drafter", tensors, config)


@pytest.fixture(scope="module")
def texts() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, VOCAB, (TOKENS,), generator=generator) for _ in range(SAMPLES)]


@pytest.fixture(scope="module")
def raw(target: Tiny, texts: list[torch.Tensor]) -> Path:
    """Raw request directories: three aux channels and the target."""
    path = target.path.parent / "raw"
    for index, ids in enumerate(texts):
        folder = path / f"request_{index}"
        folder.mkdir(parents=True)
        bank = target.states(ids)
        for name, state in zip(("aux_0", "aux_1", "aux_2", "final"), STATES, strict=True):
            torch.save(bank[state], folder / f"{name}.pt")
        torch.save(ids, folder / "token_ids.pt")
    return path


@pytest.fixture(scope="module")
def bank(target: Tiny, texts: list[torch.Tensor]) -> Path:
    return target.bank(target.path.parent / "bank", texts)


@pytest.fixture
def copy(raw: Path, tmp_path: Path) -> Path:
    return shutil.copytree(raw, tmp_path / "copy")


def evaluate(drafter: Path, target: Tiny, data: Path, **options: Any) -> DraftEvalResult:
    runs = options or {"channels": [(0, 1, 2)]}
    return draft_eval(drafter, target.path, data, device="cpu", steps=2, **runs)


def of(result: DraftEvalResult, code: str) -> list[Finding]:
    return [item for item in result.findings if item.code == code]


@pytest.mark.parametrize("request_number", [0, 5])
@pytest.mark.parametrize("lost", ["aux_0.pt", "aux_2.pt", "final.pt", "token_ids.pt"])
def test_a_torn_sample_is_named_and_the_rest_is_evaluated(
    lost: str, request_number: int, drafter: Path, target: Tiny, copy: Path
) -> None:
    (copy / f"request_{request_number}" / lost).unlink()
    result = evaluate(drafter, target, copy)
    assert result.runs[0].sequences == SAMPLES - 1
    (found,) = of(result, "file-unreadable")
    assert f"request_{request_number}" in found.message
    assert found.severity == "error"


def test_a_sample_with_other_labels_is_never_read_by_number(drafter: Path, target: Tiny, copy: Path) -> None:
    (copy / "request_2" / "aux_0.pt").rename(copy / "request_2" / "aux_3.pt")
    result = evaluate(drafter, target, copy)
    assert result.runs[0].sequences == SAMPLES - 1
    assert "aux_1, aux_2, aux_3, final" in of(result, "file-unreadable")[0].evidence


def test_a_channel_that_no_sample_has_is_still_a_usage_error(drafter: Path, target: Tiny, raw: Path) -> None:
    with pytest.raises(HsfError, match="channels 0 to 3, got 7") as caught:
        evaluate(drafter, target, raw, channels=[(0, 1, 7)])
    assert caught.value.code == "usage"


@pytest.mark.parametrize("copies", [1, 12])
def test_copies_of_a_sequence_count_once(copies: int, drafter: Path, target: Tiny, copy: Path, raw: Path) -> None:
    for index in range(copies):
        shutil.copytree(raw / "request_0", copy / f"request_1{index:02d}")
    result, plain = evaluate(drafter, target, copy), evaluate(drafter, target, raw)
    assert result.runs == plain.runs
    (found,) = of(result, "sequences-repeated")
    assert found.evidence.startswith(f"{copies} of {SAMPLES + copies}, such as request_100, a copy of request_0")
    assert of(plain, "sequences-repeated") == []


def test_nothing_but_copies_is_one_sequence_without_an_interval(
    drafter: Path, target: Tiny, raw: Path, tmp_path: Path
) -> None:
    for index in range(12):
        shutil.copytree(raw / "request_0", tmp_path / f"request_{index}")
    result = evaluate(drafter, target, tmp_path)
    assert (result.runs[0].sequences, result.runs[0].accuracy[0].interval) == (1, None)
    assert [item.evidence for item in of(result, "few-sequences")] == ["1 sequence"]
    assert "(postnorm; 1 sequence)" in result.runs[0].definitions["labels"]


def test_copies_in_a_bank_count_once_too(
    drafter: Path, target: Tiny, texts: list[torch.Tensor], tmp_path: Path
) -> None:
    twice = target.bank(tmp_path / "twice", [*texts, *texts])
    result = evaluate(drafter, target, twice, wirings=[(1, 2, 4)])
    assert result.runs[0].sequences == SAMPLES
    assert len(of(result, "sequences-repeated")) == 1


def test_a_target_channel_without_a_finite_row_is_unreadable_and_never_called_prenorm(
    drafter: Path, target: Tiny, copy: Path
) -> None:
    final = copy / "request_3" / "final.pt"
    torch.save(torch.load(final) * torch.nan, final)
    result = evaluate(drafter, target, copy)
    assert result.runs[0].sequences == SAMPLES - 1
    assert of(result, "target-prenorm") == []
    (found,) = of(result, "channel-unreadable")
    assert "request_3" in found.message
    assert "no finite row" in found.message


def test_prompt_rows_do_not_make_the_targets_own_text_off_policy(drafter: Path, target: Tiny, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(4)
    for masked in (False, True):
        for index in range(SAMPLES):
            ids = target.write(torch.randint(0, VOCAB, (TOKENS // 2,), generator=generator), TOKENS)
            bank = target.states(ids)
            folder = tmp_path / str(masked)
            folder.mkdir(exist_ok=True)
            sample = {"input_ids": ids, "hidden_states": [bank[state] for state in STATES]}
            sample |= {"loss_mask": (torch.arange(TOKENS) >= TOKENS // 2).long()} if masked else {}
            torch.save(sample, folder / f"data_{index}.pt")
    plain, own = (evaluate(drafter, target, tmp_path / str(masked)) for masked in (False, True))
    assert plain.runs[0].accept_length.on_policy < 0.7
    assert len(of(plain, "data-off-policy")) == 1
    assert own.runs[0].accept_length.on_policy > 0.95  # two logits may be equal up to rounding
    assert of(own, "data-off-policy") == []
    assert "loss_mask 1 at t + 1" in own.runs[0].definitions["on_policy"]


def test_without_an_unmasked_token_nobody_calls_the_text_foreign(drafter: Path, target: Tiny, copy: Path) -> None:
    for folder in copy.iterdir():
        torch.save(torch.zeros(TOKENS, dtype=torch.long), folder / "loss_mask.pt")
    assert of(evaluate(drafter, target, copy), "data-off-policy") == []


def refused(drafter: Path, target: Tiny, data: Path, **options: Any) -> str:
    """Code of the refusal, which must be the one that opening the capture gives."""
    with pytest.raises(HsfError) as expected:
        open_capture(data)
    with pytest.raises(HsfError) as caught:
        evaluate(drafter, target, data, **options)
    assert (caught.value.code, caught.value.where) == (expected.value.code, expected.value.where)
    return caught.value.code


@pytest.mark.parametrize("options", [{"wirings": [(1, 2, 4)]}, {"channels": [(0, 1, 2)]}, {"wirings": []}])
def test_a_part_or_a_leftover_of_a_capture_is_called_what_it_is(
    options: dict[str, Any], drafter: Path, target: Tiny, bank: Path, tmp_path: Path
) -> None:
    leftover = shutil.copytree(bank, tmp_path / ".cap.capture-abcd1234")
    assert refused(drafter, target, leftover, **options) == "capture-unfinished"
    assert refused(drafter, target, tmp_path / "cap", **options) == "capture-unfinished"
    (leftover / "manifest.json").unlink()
    assert refused(drafter, target, leftover, **options) == "capture-unfinished"
    lost, bare = shutil.copytree(bank, tmp_path / "lost"), shutil.copytree(bank, tmp_path / "bare")
    (lost / "request-00004.safetensors").unlink()
    assert refused(drafter, target, lost, **options) == "capture-unfinished"
    (bare / "manifest.json").unlink()
    assert refused(drafter, target, bare, **options) == "capture-foreign"
    assert refused(drafter, target, tmp_path / "nowhere", **options) == "not-found"


@pytest.mark.parametrize(("count", "words"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows")])
def test_one_is_no_plural(count: int, words: str) -> None:
    assert plural(count, "row") == words
