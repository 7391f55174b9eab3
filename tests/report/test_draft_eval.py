"""The terminal shows every run, every figure, and what each figure means."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from hsforensics.findings import finding
from hsforensics.report.console import console
from hsforensics.report.draft_eval import print_draft_eval
from hsforensics.report.schema import to_json
from hsforensics.results import AcceptLength, DraftEvalResult, DraftRun, DumpSource, Provenance, StepAccuracy

STEPS = (
    StepAccuracy(
        1, 0.75, (0.7, 0.8), 75, 100, {"masked": None, "draft_vocab": 0.76, "full_acc": 0.74, "cond_acc": 0.74}
    ),
    StepAccuracy(2, 0.5, None, 50, 100, {"masked": None, "draft_vocab": 0.51, "full_acc": 0.4, "cond_acc": 0.53}),
)
ORIGIN = Provenance(
    "0.1.0",
    ("hsforensics",),
    "2026-01-01T00:00:00+00:00",
    target_path="some/[model]",
    target_wrapper="KimiK25ForConditionalGeneration",
    target_inner="DeepseekV3ForCausalLM",
    layers=61,
    hidden_size=7168,
    drafter_path="the/drafter",
    capture_path="the/bank",
    engine="transformers",
    engine_version="5.0",
    dtype="float32",
    device="cpu",
)
RUN = DraftRun(
    "bank", (3, 31, 59), STEPS, AcceptLength(2.592, (2.4, 2.7), 321, 0.97), 100, 4, {"accuracy": "the formula"}
)


def shown(*runs: DraftRun) -> str:
    stream = io.StringIO()
    found = (finding("draft-best", "wiring [3, 31, 59]", "leads", "step 1 +0.2"),)
    print_draft_eval(DraftEvalResult(runs, found, ORIGIN), console(stream))
    return stream.getvalue()


def lines_with(text: str, start: str) -> list[list[str]]:
    return [line.removeprefix(start).split() for line in text.splitlines() if line.startswith(start)]


def test_figures_stand_beside_their_run() -> None:
    text = shown(RUN, replace(RUN, wiring=(0, 3, 31), accept_length=AcceptLength(None, None, 0, 0.25)))
    accuracy, accept, *variants = lines_with(text, "wiring [3, 31, 59]")
    assert accuracy == ["0.750", "(0.700", "to", "0.800)", "0.500", "100"]
    assert accept == ["2.59", "(2.40", "to", "2.70)", "321", "97.0%"]
    assert variants == [
        ["draft_vocab", "0.760", "0.510"],
        ["full_acc", "0.740", "0.400"],
        ["cond_acc", "0.740", "0.530"],
    ]
    assert lines_with(text, "wiring [0, 3, 31]")[1] == ["unknown", "0", "25.0%"]


@pytest.mark.parametrize("steps", [4, 12, 299])
def test_many_steps_are_printed_below_each_other_and_every_figure_is_whole(steps: int) -> None:
    variants = {"masked": None, "draft_vocab": 0.25, "full_acc": None, "cond_acc": 0.125}
    accuracy = tuple(StepAccuracy(k, k / 1000, (0.0, 1.0), k, 1000, variants) for k in range(1, steps + 1))
    text = shown(replace(RUN, accuracy=accuracy), replace(RUN, accuracy=accuracy, wiring=(27, 15, 3)))
    for name in ("wiring [3, 31, 59]", "wiring [27, 15, 3]"):
        rows = lines_with(text, name)
        assert rows[:steps] == [
            [str(k), f"{k / 1000:.3f}", "(0.000", "to", "1.000)", "1000"] for k in range(1, steps + 1)
        ]
        assert rows[-steps:] == [[str(k), "0.250", "0.125"] for k in range(1, steps + 1)]
    assert "\u2026" not in text
    assert "masked" not in text


@pytest.mark.parametrize("steps", range(1, 4))
def test_few_steps_stand_abreast(steps: int) -> None:
    text = shown(replace(RUN, accuracy=tuple(replace(STEPS[0], step=k) for k in range(1, steps + 1))))
    assert lines_with(text, "wiring [3, 31, 59]")[0] == ["0.750", "(0.700", "to", "0.800)"] * steps + ["100"]
    assert "\u2026" not in text


@pytest.mark.parametrize(("count", "words"), [(1, "1 sample,"), (2, "2 samples,")])
def test_one_sample_is_no_plural(count: int, words: str) -> None:
    origin = replace(ORIGIN, dumps=(DumpSource("some/dumps", "raw", count, "float32"),))
    stream = io.StringIO()
    print_draft_eval(DraftEvalResult((RUN,), (), origin), console(stream))
    assert words in stream.getvalue()


def test_channels_are_never_called_a_wiring() -> None:
    text = shown(replace(RUN, source="channels", wiring=(0, 1, 2)))
    assert "channels [0, 1, 2]" in text
    assert "wiring [0" not in text


@pytest.mark.parametrize(
    "text",
    [
        "bonus token included",
        "accuracy",
        "docs/draft-eval.md",
        "draft-best",
        "some/[model]",
        "Kimi",
        "L = 61",
        "the/bank",
        "float32",
    ],
)
def test_sources_findings_and_definitions_are_printed(text: str) -> None:
    assert text in shown(RUN)


@pytest.mark.parametrize("shown_variant", ["masked", "draft_vocab", "full_acc", "cond_acc"])
def test_every_trainers_variant_is_explained_where_it_is_shown_and_nowhere_else(shown_variant: str) -> None:
    names = ("masked", "draft_vocab", "full_acc", "cond_acc")
    trainer = {name: 0.5 if name == shown_variant else None for name in names}
    text = shown(replace(RUN, accuracy=(replace(STEPS[0], trainer=trainer),)))
    assert [name for name in names if f"{name}: " in text] == [shown_variant]


def test_formulas_are_short_on_a_terminal_and_whole_in_json() -> None:
    text = shown(RUN)
    assert "the formula" not in text
    assert len(text.splitlines()) < 30
    assert '"accuracy": "the formula"' in to_json(DraftEvalResult((RUN,), (), ORIGIN))


def test_eighty_columns_cut_no_figure() -> None:
    out = Console(file=io.StringIO(), width=80)
    print_draft_eval(DraftEvalResult((replace(RUN, wiring=(3, 31, 45, 59)),), (), ORIGIN), out)
    assert isinstance(out.file, io.StringIO)
    assert "\u2026" not in out.file.getvalue()
    assert "on policy" in out.file.getvalue()


def test_the_result_is_valid_json() -> None:
    assert '"kind": "draft-eval"' in to_json(DraftEvalResult((RUN,), (), ORIGIN))
