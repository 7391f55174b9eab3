"""``hsforensics draft-eval``: how well does the drafter draft when it is fed these channels?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hsforensics.capture.store import Capture
from hsforensics.capture.transformers_model import DTYPES, pick_device
from hsforensics.drafter.definitions import definitions
from hsforensics.drafter.evaluate import Feed, SequenceScore, score_sequence
from hsforensics.drafter.labels import Labels, target_labels
from hsforensics.drafter.model import rms_norm
from hsforensics.drafter.ranking import rank_runs
from hsforensics.drafter.summary import draft_run
from hsforensics.drafter.weights import LoadedDrafter, load_drafter
from hsforensics.errors import HsfError
from hsforensics.findings import fill_findings
from hsforensics.flows.compare_findings import sort_findings
from hsforensics.flows.draft_data import EvalData, Reading, distinct, open_data, readings
from hsforensics.flows.draft_findings import data_findings, embedding_findings, plural, run_findings, target_findings
from hsforensics.flows.draft_target import TargetCheck
from hsforensics.flows.known import known_words
from hsforensics.flows.provenance import provenance
from hsforensics.flows.recognise import DRAFT_EVAL_CALL, recognising
from hsforensics.models.target import Target, load_target
from hsforensics.results import DraftEvalResult, DumpSource, Provenance
from hsforensics.states import Finding, State, show_wiring

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class _Judge:
    """What every sequence is evaluated with: the drafter, and the target's head and final norm, on one device."""

    drafter: LoadedDrafter
    head: Tensor  # [V, H] fp32
    gain: Tensor  # [H] fp32
    eps: float
    device: torch.device
    steps: int
    feed: Feed

    def labels(self, values: Tensor, *, prenorm: bool) -> Labels:
        """What the target's head chooses from a channel [T, H], through the final norm if it is still to be applied."""
        final = values.to(self.device).float()  # [T, H]
        postnorm = rms_norm(final, self.gain, self.eps) if prenorm else final
        return target_labels(postnorm, self.head, self.drafter.weights.target_ids)

    def scores(self, reading: Reading, labels: Labels, runs: Sequence[tuple[State, ...]]) -> list[SequenceScore]:
        """One score for each run; the target's choices are the same for all."""
        import torch

        weights = self.drafter.weights
        tokens = reading.token_ids.to(self.device)
        mask = None if reading.loss_mask is None else reading.loss_mask.to(self.device)
        found = []
        for run in runs:
            aux = torch.cat([reading.channels[name].to(self.device).float() for name in run], dim=1)  # [T, n * H]
            found.append(score_sequence(weights, tokens, aux, labels, self.steps, self.feed, mask))
        return found


@dataclass(frozen=True)
class _Evaluated:
    """The evaluated sequences: their scores by run, what their labels came from, and findings about the others."""

    scores: list[list[SequenceScore]]
    labels: dict[tuple[str, bool], int]
    findings: list[Finding]
    dtypes: tuple[str, ...]
    check: TargetCheck


@recognising(DRAFT_EVAL_CALL)
def draft_eval(
    drafter: Path,
    target: Path,
    data: Path,
    *,
    wirings: Sequence[tuple[State, ...]] = (),
    channels: Sequence[tuple[int, ...]] = (),
    steps: int = 3,
    target_channel: int | None = None,
    feed: Feed = "text",
    dtype: Literal["fp32", "bf16"] = "fp32",
    device: str = "auto",
    seed: int = 0,
    max_sequences: int | None = None,
) -> DraftEvalResult:
    """Measure a drafter's accuracy and accept length with one or several choices of inputs.

    Args:
        drafter: Directory of the drafter.
        target: Directory of the target model.
        data: A capture (a bank, or a live one with states) or training dumps. Sequences with equal token ids count
            once.
        wirings: States to feed, in ``fc`` order, one run each; needs a capture. Accuracy tells gross miswirings
            apart, and not states one apart; see ``hsforensics.drafter.ranking``.
        channels: Channel numbers of the dump to feed, in ``fc`` order, one run each; needs dumps. What they measure
            proves the drafter and not the wiring, since the labels of a dump prove nothing.
        steps: K, draft steps to evaluate.
        target_channel: Channel of the dump that the target's choices are computed from; by default the last one, if
            the dump has more channels than the drafter joins.
        feed: Which token step k >= 2 embeds, see ``hsforensics.drafter.evaluate.Feed``.
        dtype: Of the drafter's forward; the target's choices are always computed in fp32.
        device: ``auto`` takes CUDA where there is one; or a device that torch knows.
        seed: Of the bootstrap over sequences.
        max_sequences: Sequences to read at most, from the first.

    Raises:
        HsfError: An input is missing, unreadable or foreign, a run does not fit the drafter or the data, or nothing
            could be evaluated.
    """
    _check_numbers(steps, max_sequences, dtype, feed)
    opened = open_data(data, wirings, channels, target)
    model = load_target(target)
    place, precision = pick_device(device), _torch_dtype(dtype)
    loaded = load_drafter(drafter, model, precision, place)
    _check_runs(opened, loaded)
    head = _whole_head(model).to(place).float()
    judge = _Judge(loaded, head, model.norm_weight().to(place), model.norm_eps, place, steps, feed)
    done = _evaluate(judge, opened, model, target_channel, max_sequences, data)
    _check_positions(done, opened, data, steps)
    words = definitions(loaded, feed, _labels_note(done), opened.note)
    runs = tuple(
        draft_run(opened.source, run, scores, seed, words) for run, scores in zip(opened.runs, done.scores, strict=True)
    )
    ranked = rank_runs(runs, done.scores)
    found = [
        *done.findings,
        *(target_findings(done.labels, done.check.proof) if opened.source == "channels" else ()),
        *done.check.findings(seed),
        *run_findings(runs, done.scores),
        *data_findings(runs[0], sum(score.walk.rows for score in done.scores[0])),
        *embedding_findings(loaded, drafter),
        *([ranked] if ranked else ()),
    ]
    origin = _provenance(model, loaded, drafter, opened, data, done, dtype=DTYPES[dtype], device=place, seed=seed)
    return DraftEvalResult(
        runs=runs, findings=fill_findings(sort_findings(found), known_words(origin)), provenance=origin
    )


def _check_numbers(steps: int, max_sequences: int | None, dtype: str, feed: str) -> None:
    for option, value in (("--steps", steps), ("--max-sequences", max_sequences)):
        if value is not None and value < 1:
            raise HsfError("usage", option, f"must be at least 1, got {value}", "give a positive number")
    for option, word, allowed in (("--dtype", dtype, tuple(DTYPES)), ("--feed", feed, ("text", "own"))):
        if word not in allowed:
            raise HsfError("usage", option, f"must be {' or '.join(allowed)}, got {word!r}", "give one of them")


def _torch_dtype(dtype: str) -> torch.dtype:
    import torch

    found: torch.dtype = getattr(torch, DTYPES[dtype])
    return found


def _whole_head(model: Target) -> Tensor:
    """The target's output head, [V, H], if it is what the config promises."""
    head = model.lm_head()
    if head.ndim != 2 or len(head) < model.vocab_size or head.shape[1] != model.hidden_size:
        got = f"its lm_head is {list(head.shape)}, the config promises [{model.vocab_size}, {model.hidden_size}]"
        raise HsfError("target-unreadable", model.path, got, "use a whole checkpoint with its own config")
    return head


def _check_runs(data: EvalData, loaded: LoadedDrafter) -> None:
    option = "--wiring" if data.source == "bank" else "--channels"
    wanted = loaded.weights.spec.channels
    for run in data.runs:
        if len(run) != wanted:
            got = f"{show_wiring(run)} names {len(run)} channels, the drafter's fc joins {wanted}"
            raise HsfError("usage", option, got, f"name {wanted} of them")


def _evaluate(
    judge: _Judge, data: EvalData, model: Target, target_channel: int | None, limit: int | None, path: Path
) -> _Evaluated:
    scores: list[list[SequenceScore]] = [[] for _ in data.runs]
    labels: dict[tuple[str, bool], int] = {}
    findings: list[Finding] = []
    dtypes: dict[str, None] = {}
    check = TargetCheck()
    for item in distinct(readings(data, model, judge.drafter.weights.spec.channels, target_channel, limit)):
        if isinstance(item, Finding):
            findings.append(item)
            continue
        chosen = judge.labels(item.final, prenorm=item.prenorm)
        if data.source == "channels" and item.prenorm:
            check.add(item, chosen.full, lambda values: judge.labels(values, prenorm=True).full)
        for pile, score in zip(scores, judge.scores(item, chosen, data.runs), strict=True):
            pile.append(score)
        key = (item.final_name, item.prenorm)
        labels[key] = labels.get(key, 0) + 1
        dtypes[item.dtype] = None
    if not scores[0]:
        why = next((item.message for item in findings if item.code != "target-differs"), "it holds no sequence")
        raise HsfError("nothing-compared", path, f"no sequence could be evaluated; {why}", "produce the data again")
    return _Evaluated(scores, labels, findings, tuple(dtypes), check)


def _check_positions(done: _Evaluated, data: EvalData, path: Path, steps: int) -> None:
    """Refuse a result without a single position at some step, or with nothing but NaN."""
    if not any(score.steps[-1].accuracy[1] for score in done.scores[0]):
        longest = max(score.steps[0].accuracy[1] for score in done.scores[0]) + 1
        got = f"the longest sequence has {longest} tokens, too few for {steps} steps"
        raise HsfError("nothing-compared", path, got, f"use --steps {longest - 1}, or longer sequences")
    for run, scores in zip(data.runs, done.scores, strict=True):
        if all(score.broken == score.steps[0].accuracy[1] for score in scores):
            got = f"every row of {show_wiring(run)} or of the target's state is NaN or Inf, or follows one that is"
            raise HsfError("nothing-compared", path, got, "produce the data again")


def _labels_note(done: _Evaluated) -> str:
    parts = [
        f"{name} ({'pre-norm: the final norm is applied here' if prenorm else 'postnorm'}; {plural(count, 'sequence')})"
        for (name, prenorm), count in done.labels.items()
    ]
    return f"the target's argmax, through its lm_head in fp32, from {' and '.join(parts)}"


def _provenance(
    model: Target,
    loaded: LoadedDrafter,
    drafter: Path,
    data: EvalData,
    path: Path,
    done: _Evaluated,
    *,
    dtype: str,
    device: torch.device,
    seed: int,
) -> Provenance:
    opened = data.opened
    if isinstance(opened, Capture):
        manifest = opened.manifest
        source: dict[str, Any] = {"engine": manifest.engine, "engine_version": manifest.engine_version}
        source["capture_path"] = str(path)
    else:
        count = len(done.scores[0])
        source = {"dumps": (DumpSource(str(path), opened.producer, count, "/".join(sorted(done.dtypes))),)}
    return provenance(
        target_path=str(model.path),
        target_wrapper=model.wrapper_class,
        target_inner=model.inner_class,
        layers=model.layers,
        hidden_size=model.hidden_size,
        drafter_path=str(drafter),
        drafter_config_sha256=loaded.config_sha256,
        drafter_structure_sha256=loaded.structure_sha256,
        dtype=dtype,
        device=str(device),
        seeds={"bootstrap": seed},
        **source,
    )
