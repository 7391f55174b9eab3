"""``draft-eval`` on a drafter that was really trained: what it tells apart, what it reports, what it refuses."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from safetensors.torch import load_file, save_file

from hsforensics.errors import HsfError
from hsforensics.flows.draft_eval import draft_eval
from hsforensics.results import DraftEvalResult
from hsforensics.states import POSTNORM
from tests.flows.draft_case import EMBEDDING_FIRST, LAST, SWAPPED, TEXTS, TOKENS, TRAINED, Case, make_case, write_dump
from tests.tiny import HIDDEN, LAYERS, VOCAB, make_tiny


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("draft-eval"))


@pytest.fixture(scope="module")
def dump(case: Case) -> Path:
    return write_dump(case, case.bank.parent / "dump")


def evaluate(case: Case, data: Path | None = None, drafter: Path | None = None, **options: Any) -> DraftEvalResult:
    if data is None:
        options.setdefault("wirings", [TRAINED])
    return draft_eval(drafter or case.drafter, case.target.path, data or case.bank, device="cpu", **options)


def codes(result: DraftEvalResult) -> list[str]:
    return [item.code for item in result.findings]


def hits(result: DraftEvalResult, run: int = 0) -> list[int]:
    return [step.correct for step in result.runs[run].accuracy]


def refusal(case: Case, *args: Any, **options: Any) -> HsfError:
    with pytest.raises(HsfError) as caught:
        evaluate(case, *args, **options)
    return caught.value


def test_the_trained_wiring_clearly_beats_embedding_first_and_neighbours_stay_undecided(case: Case) -> None:
    result = evaluate(case, wirings=[EMBEDDING_FIRST, TRAINED, SWAPPED])
    embedding, trained, swapped = ([step.value for step in run.accuracy] for run in result.runs)
    assert trained[0] > embedding[0] + 0.2
    assert trained[0] > swapped[0] + 0.05
    assert all(value > 0.4 for value in trained)
    undecided = next(item for item in result.findings if item.code == "draft-undecided")
    assert undecided.where == "wiring [1, 2, 4]"
    assert "(over wiring [2, 1, 4])" in undecided.message  # no slot differs by more than one state
    best = next(x for x in evaluate(case, wirings=[EMBEDDING_FIRST, TRAINED]).findings if x.code == "draft-best")
    assert best.where == "wiring [1, 2, 4]"
    few = evaluate(case, wirings=[EMBEDDING_FIRST, TRAINED], max_sequences=7)
    assert {"draft-undecided", "draft-best"} & set(codes(few)) == {"draft-undecided"}


def test_texts_that_name_a_proof_say_what_accuracy_cannot_tell_apart(case: Case) -> None:
    words = evaluate(case).runs[0].definitions
    assert "only values tell them apart" in words["inputs"]
    assert "at most one apart" in words["ranking"]


def test_every_figure_carries_its_numbers_and_its_definition(case: Case) -> None:
    run = evaluate(case, steps=2).runs[0]
    assert (run.source, run.wiring, run.sequences, run.tokens) == ("bank", TRAINED, TEXTS, TEXTS * (TOKENS - 1))
    assert [step.positions for step in run.accuracy] == [TEXTS * (TOKENS - k) for k in (1, 2)]
    for step in run.accuracy:
        assert step.value == step.correct / step.positions
        assert step.interval is not None
        assert step.interval[0] < step.value < step.interval[1]
        assert step.trainer["masked"] is None  # a capture has no loss mask
        assert run.definitions.keys() >= step.trainer.keys()
    assert run.definitions.keys() >= {"accuracy", "accept_length", "on_policy", "feed", "embedding", "labels", "inputs"}
    assert "postnorm" in run.definitions["labels"]


def test_channels_of_a_dump_by_number_equal_the_states_that_they_hold(case: Case, dump: Path) -> None:
    by_number = evaluate(case, dump, channels=[(0, 1, 2), (1, 0, 2)])
    by_state = evaluate(case, wirings=[TRAINED, SWAPPED])
    assert [hits(by_number, i) for i in range(2)] == [hits(by_state, i) for i in range(2)]
    run = by_number.runs[0]
    assert (run.source, run.wiring) == ("channels", (0, 1, 2))
    assert "nothing about which states" in run.definitions["inputs"]
    assert "target-postnorm" in codes(by_number)


def test_a_target_channel_before_the_norm_is_normed_and_said_so(case: Case, dump: Path, tmp_path: Path) -> None:
    prenorm = evaluate(case, write_dump(case, tmp_path / "pre", (*TRAINED, LAST)), channels=[(0, 1, 2)])
    assert hits(prenorm) == hits(evaluate(case, dump, channels=[(0, 1, 2)]))
    assert "target-prenorm" in codes(prenorm)
    assert "the final norm is applied here" in prenorm.runs[0].definitions["labels"]


def test_the_target_channel_may_lie_anywhere_if_it_is_named(case: Case, dump: Path, tmp_path: Path) -> None:
    moved = write_dump(case, tmp_path / "moved", (POSTNORM, *TRAINED))
    result = evaluate(case, moved, channels=[(1, 2, 3)], target_channel=0)
    assert hits(result) == hits(evaluate(case, dump, channels=[(0, 1, 2)]))


def test_the_loss_mask_moves_the_trainers_figures_and_not_the_accuracy(case: Case, dump: Path, tmp_path: Path) -> None:
    whole = evaluate(case, dump, channels=[(0, 1, 2)])
    half = evaluate(case, write_dump(case, tmp_path / "masked", masked=True), channels=[(0, 1, 2)])
    assert hits(half) == hits(whole)
    first, masked = whole.runs[0].accuracy[0], half.runs[0].accuracy[0]
    assert first.trainer["masked"] == first.value
    assert masked.trainer["masked"] != masked.value
    assert masked.trainer["full_acc"] == pytest.approx(masked.trainer["masked"], abs=0.05)


def test_a_bank_without_postnorm_gives_the_same_labels_from_state_l(case: Case, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(case.bank, bare)
    manifest = json.loads((bare / "manifest.json").read_text())
    manifest["states"].remove(POSTNORM)
    (bare / "manifest.json").write_text(json.dumps(manifest))
    result = evaluate(case, bare, wirings=[TRAINED])
    assert hits(result) == hits(evaluate(case))
    assert f"state {LAYERS} (pre-norm" in result.runs[0].definitions["labels"]


def test_permuting_wiring_and_column_blocks_together_changes_nothing(case: Case, tmp_path: Path) -> None:
    shutil.copytree(case.drafter, tmp_path / "d")
    weights = load_file(tmp_path / "d" / "model.safetensors")
    a, b, c = weights["fc.weight"].chunk(3, dim=1)
    weights["fc.weight"] = torch.cat((b, a, c), dim=1)
    save_file(weights, tmp_path / "d" / "model.safetensors")
    moved = evaluate(case, drafter=tmp_path / "d", wirings=[SWAPPED, TRAINED])
    plain = evaluate(case, wirings=[TRAINED, SWAPPED])
    assert [hits(moved, i) for i in range(2)] == [hits(plain, i) for i in range(2)]


def test_feeding_its_own_tokens_changes_later_steps_only(case: Case) -> None:
    text, own = (evaluate(case, feed=feed) for feed in ("text", "own"))
    assert hits(text)[0] == hits(own)[0]
    assert hits(text)[1:] != hits(own)[1:]
    assert text.runs[0].accept_length == own.runs[0].accept_length
    assert own.runs[0].definitions["feed"].startswith("own")


def test_bf16_is_close_and_recorded(case: Case) -> None:
    half = evaluate(case, dtype="bf16")
    assert half.provenance.dtype == "bfloat16"
    assert abs(half.runs[0].accuracy[0].value - evaluate(case).runs[0].accuracy[0].value) < 0.03


def test_provenance_names_every_input(case: Case, dump: Path) -> None:
    bank, channels = evaluate(case, seed=3).provenance, evaluate(case, dump, channels=[(0, 1, 2)]).provenance
    assert (bank.drafter_path, bank.capture_path, bank.dumps) == (str(case.drafter), str(case.bank), ())
    assert (bank.engine, bank.dtype, bank.device, bank.seeds) == ("transformers", "float32", "cpu", {"bootstrap": 3})
    assert (bank.layers, bank.hidden_size) == (LAYERS, HIDDEN)
    assert bank.drafter_config_sha256
    assert bank.drafter_structure_sha256
    assert channels.capture_path is None
    assert [(source.path, source.samples, source.dtype) for source in channels.dumps] == [(str(dump), TEXTS, "float32")]


def test_few_sequences_and_foreign_text_are_reported(case: Case) -> None:
    one = evaluate(case, max_sequences=1)
    assert one.runs[0].sequences == 1
    assert one.runs[0].accuracy[0].interval is None
    assert {"few-sequences", "data-off-policy"} <= set(codes(one))
    assert "few-sequences" not in codes(evaluate(case))


def test_an_embedding_of_its_own_is_reported_and_not_used(case: Case, tmp_path: Path) -> None:
    shutil.copytree(case.drafter, tmp_path / "d")
    weights = load_file(tmp_path / "d" / "model.safetensors")
    weights["embed_tokens.weight"] = torch.randn(VOCAB, HIDDEN)
    save_file(weights, tmp_path / "d" / "model.safetensors")
    result = evaluate(case, drafter=tmp_path / "d")
    assert hits(result) == hits(evaluate(case))
    assert "100.0%" in next(item.evidence for item in result.findings if item.code == "draft-embedding-own")
    assert "SGLang" in result.runs[0].definitions["embedding"]


def spoil(dump: Path, out: Path, files: int, **changes: Any) -> Path:
    """A copy of the dump whose first files have other entries."""
    shutil.copytree(dump, out)
    for index in range(files):
        sample = torch.load(out / f"data_{index}.pt", weights_only=True)
        sample |= {key: change(sample[key]) for key, change in changes.items()}
        torch.save(sample, out / f"data_{index}.pt")
    return out


def with_nan(states: list[torch.Tensor]) -> list[torch.Tensor]:
    states[1][TOKENS // 2, 3] = torch.nan
    return states


def test_nan_is_wrong_and_reported(case: Case, dump: Path, tmp_path: Path) -> None:
    broken = spoil(dump, tmp_path / "nan", TEXTS, hidden_states=with_nan)
    result, plain = (evaluate(case, data, channels=[(0, 1, 2), (0, 0, 2)]) for data in (broken, dump))
    assert hits(result)[0] < 0.7 * hits(plain)[0]
    assert result.runs[0].tokens == plain.runs[0].tokens
    assert hits(result, 1) == hits(plain, 1)  # this run does not read the broken channel
    found = [item for item in result.findings if item.code == "channel-unreadable"]
    assert [item.where for item in found] == ["[0, 1, 2]"]
    assert found[0].evidence == f"{TEXTS * (TOKENS - 1 - TOKENS // 2)} of {TEXTS * (TOKENS - 1)} rows"


def test_nothing_but_nan_is_no_verdict(case: Case, dump: Path, tmp_path: Path) -> None:
    broken = spoil(dump, tmp_path / "nan", TEXTS, hidden_states=lambda states: [x * torch.nan for x in states])
    assert refusal(case, broken, channels=[(0, 1, 2)]).code == "nothing-compared"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"hidden_states": lambda states: [*states[:-1], states[-1][:-1]]}, "channel-unreadable"),
        ({"hidden_states": lambda states: [states[0][:, :-1], *states[1:]]}, "channel-unreadable"),
        ({"input_ids": lambda ids: ids + VOCAB}, "file-unreadable"),
        ({"loss_mask": lambda mask: mask[:-1]}, "file-unreadable"),
        ({"input_ids": lambda ids: "text"}, "file-unreadable"),
    ],
)
def test_a_sample_that_does_not_fit_is_left_out_and_named(
    changes: dict[str, Any], code: str, case: Case, dump: Path, tmp_path: Path
) -> None:
    result = evaluate(case, spoil(dump, tmp_path / "some", 1, **changes), channels=[(0, 1, 2)])
    assert result.runs[0].sequences == TEXTS - 1
    found = [item for item in result.findings if item.code == code]
    assert len(found) == 1
    assert "data_0.pt" in found[0].where
    everything = spoil(dump, tmp_path / "all", TEXTS, **changes)
    assert refusal(case, everything, channels=[(0, 1, 2)]).code == "nothing-compared"


def test_sequences_too_short_for_the_steps_are_no_verdict(case: Case) -> None:
    error = refusal(case, steps=TOKENS, max_sequences=3)
    assert error.code == "nothing-compared"
    assert f"--steps {TOKENS - 1}" in error.remedy
    assert len(evaluate(case, steps=TOKENS - 1, max_sequences=1).runs[0].accuracy) == TOKENS - 1


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "states of a dump": ({"data": "dump", "wirings": [TRAINED]}, "labels of a dump prove nothing"),
    "a dump without channels": ({"data": "dump"}, "none is given"),
    "channels of a capture": ({"data": "bank", "channels": [(0, 1, 2)]}, "got --channels"),
    "a capture without wiring": ({"data": "bank"}, "none is given"),
    "target channel of a capture": ({"data": "bank", "wirings": [TRAINED], "target_channel": 3}, "only dumps"),
    "two channels for three": ({"data": "bank", "wirings": [(1, 2)]}, r"\[1, 2\] names 2 channels.*joins 3"),
    "four channels for three": ({"data": "dump", "channels": [(0, 1, 2, 3)]}, r"names 4 channels.*joins 3"),
    "a state that is not there": ({"data": "bank", "wirings": [(1, 2, 9)]}, "no state 9, only"),
    "a channel that is not there": ({"data": "dump", "channels": [(0, 1, 4)]}, "channels 0 to 3, got 4"),
    "a target channel that is not there": (
        {"data": "dump", "channels": [(0, 1, 2)], "target_channel": 7}, "channels 0 to 3, got 7"
    ),
    "no steps": ({"data": "bank", "wirings": [TRAINED], "steps": 0}, "at least 1, got 0"),
    "no sequences": ({"data": "bank", "wirings": [TRAINED], "max_sequences": 0}, "at least 1, got 0"),
    "dtype": ({"data": "bank", "wirings": [TRAINED], "dtype": "fp8"}, "bf16 or fp32, got 'fp8'"),
    "feed": ({"data": "bank", "wirings": [TRAINED], "feed": "air"}, "text or own"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_a_question_that_makes_no_sense_is_a_usage_error(name: str, case: Case, dump: Path) -> None:
    options, message = REFUSALS[name]
    data = {"bank": case.bank, "dump": dump}[options["data"]]
    error = refusal(case, data, **{key: value for key, value in options.items() if key != "data"})
    assert error.code == "usage"
    assert re.search(message, error.message)


def test_a_dump_without_a_channel_for_the_target_is_refused(case: Case, tmp_path: Path) -> None:
    error = refusal(case, write_dump(case, tmp_path / "three", TRAINED), channels=[(0, 1, 2)])
    assert (error.code, "--target-channel" in error.remedy) == ("nothing-compared", True)


def test_a_bank_that_cannot_tell_the_targets_choices_is_refused(case: Case, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(case.bank, bare)
    manifest = json.loads((bare / "manifest.json").read_text())
    manifest["states"] = manifest["states"][:LAYERS]
    (bare / "manifest.json").write_text(json.dumps(manifest))
    assert refusal(case, bare, wirings=[TRAINED]).code == "nothing-compared"


def test_a_target_whose_head_is_too_short_is_refused(case: Case, tmp_path: Path) -> None:
    shutil.copytree(case.target.path, tmp_path / "short")
    weights = load_file(tmp_path / "short" / "model.safetensors")
    weights["lm_head.weight"] = weights["lm_head.weight"][:-1]
    save_file(weights, tmp_path / "short" / "model.safetensors")
    with pytest.raises(HsfError, match="lm_head") as caught:
        draft_eval(case.drafter, tmp_path / "short", case.bank, wirings=[TRAINED], device="cpu")
    assert caught.value.code == "target-unreadable"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("feed", ["text", "own"])
def test_cuda_counts_what_the_cpu_counts(case: Case, feed: Literal["text", "own"]) -> None:
    here = evaluate(case, wirings=[TRAINED, SWAPPED], feed=feed)
    there = draft_eval(case.drafter, case.target.path, case.bank, wirings=[TRAINED, SWAPPED], feed=feed, device="cuda")
    assert there.provenance.device.startswith("cuda")
    for run in range(2):
        for left, right in zip(hits(here, run), hits(there, run), strict=True):
            assert abs(left - right) <= 2  # two logits may be equal up to rounding


def test_data_that_are_not_there_are_not_found(case: Case, tmp_path: Path) -> None:
    assert refusal(case, tmp_path / "nowhere", wirings=[TRAINED]).code == "not-found"


def test_another_target_of_the_same_shape_is_an_error(case: Case, tmp_path: Path) -> None:
    """The labels come from the states and the head of --target: another model's give a low accuracy."""
    other = make_tiny(tmp_path / "other", seed=5, spread=0.1, sharpness=10.0)
    result = draft_eval(case.drafter, other.path, case.bank, wirings=[TRAINED], device="cpu")
    assert result.runs[0].accuracy[0].value < 0.2
    assert [item.severity for item in result.findings if item.code == "target-differs"] == ["error"]
    assert "target-differs" not in codes(evaluate(case))
