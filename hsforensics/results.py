"""The result schema, version 1: what every command returns and what ``--json`` prints.

Frozen dataclasses without behaviour; ``hsforensics.report.schema`` turns them into JSON and back with pydantic and
publishes their JSON schema in ``docs/schema``. Numbers that do not exist are ``None``, never NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from hsforensics.states import Finding, Identity, Role, Side, State, Status, Wiring

SCHEMA_VERSION: Final = 1

Interval: TypeAlias = tuple[float, float]
"""A 95 % bootstrap interval over sequences (tokens of one sequence correlate): (low, high)."""

Verdict: TypeAlias = Literal["aligned", "misaligned", "undecided"]
"""Whether the served wiring is the trained one; ``undecided`` when either is not known from values."""

Tier: TypeAlias = Literal["files", "bank", "live"]
"""The evidence at hand: the target's files, a reference bank, or a capture with served states."""


@dataclass(frozen=True)
class DumpSource:
    """Where training data came from: path, producer as recognised, samples read, dtype of channels, who claims."""

    path: str
    producer: str
    samples: int
    dtype: str | None
    claim_source: str | None = None


@dataclass(frozen=True)
class Provenance:
    """Everything needed to repeat a result or to doubt it; ``None`` where a part was not given.

    Attributes:
        hsforensics: Version of this package.
        command: The command line, program first.
        created: UTC time, ISO 8601.
        target_path: Target model as given.
        target_wrapper: Class that the engine loads (``architectures[0]``), and
        target_inner: class of the language model inside it; equal for text-only models.
        layers: L, the number of decoder layers of the target.
        hidden_size: Width of a state.
        drafter_path: Drafter as given.
        drafter_config_sha256: Hash of the drafter's config bytes.
        drafter_structure_sha256: Hash of the names, shapes and dtypes of its weights; survives config edits.
        drafter_weights_sha256: Hash of the first row of each of its weights; training changes it.
        dumps: Training data read.
        capture_path: Capture read or written.
        served_config_sha256: Hash of the drafter config that the capture was served with; ``None`` when unknown.
        engine: Name of the engine that made the capture, or that a config is written for.
        engine_version: Its version.
        dtype: dtype that the capture's states were computed in, or that an evaluation ran in.
        device: Device that computed the result.
        seeds: Every seed used, by purpose.
    """

    hsforensics: str
    command: tuple[str, ...]
    created: str
    target_path: str | None = None
    target_wrapper: str | None = None
    target_inner: str | None = None
    layers: int | None = None
    hidden_size: int | None = None
    drafter_path: str | None = None
    drafter_config_sha256: str | None = None
    drafter_structure_sha256: str | None = None
    drafter_weights_sha256: str | None = None
    dumps: tuple[DumpSource, ...] = ()
    capture_path: str | None = None
    served_config_sha256: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    dtype: str | None = None
    device: str | None = None
    seeds: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ChannelRecord:
    """What one channel of either side is, and on what evidence.

    Attributes:
        side: ``dump`` (training) or ``served`` (the live engine).
        index: Position in its file.
        label: What the file calls it.
        claim: The state that the label or a config claims, or ``None``.
        role: aux, target or unused.
        identity: See ``hsforensics.states.Identity``.
        state: The best state, or ``None`` when the evidence cannot name one.
        distance: Median over tokens of ``|x - s| / |s|`` to the best state ``s``, in fp32.
        runner_up_state: The second-best state, and
        runner_up: its distance.
        margin: ``1 - distance / runner_up``: 1 for an exact match, 0 when two states fit equally well.
        votes: Share of tokens that lie nearest to the best state.
        votes_interval: Its 95 % interval over sequences; ``None`` with fewer than two sequences.
        tokens: Rows compared.
        norm: Median over tokens of ``|x|``.
        row: Row whose first values are shown (of the first sample compared).
        values: The channel's first five values in that row.
        reference: The best state's first five values in that row, where the evidence has them.
        claimed_reference: The claimed state's, likewise; empty when it is the best state.
        against: What ``status`` compares with: the ``served`` (or trained) counterpart, the ``claim``, or ``nothing``.
        status: See ``hsforensics.states.Status``.
        note: The evidence in words.
        explanation: What the channel is after all when it is no state: the transform that explains it, in words.
        explained: Share of the misfit to the nearest state that the transform explains, 0 to 1.
        agreement: Share of rows that agree with the best state; well under 1 means that some rows hold something else.
        noise_floor: Median distance between repeated captures of the best state; ``None`` when none were given.
    """

    side: Side
    index: int
    label: str
    claim: State | None
    role: Role
    identity: Identity
    state: State | None
    distance: float | None
    runner_up_state: State | None
    runner_up: float | None
    margin: float | None
    votes: float | None
    votes_interval: Interval | None
    tokens: int
    norm: float | None
    row: int | None
    values: tuple[float | None, ...]
    reference: tuple[float | None, ...]
    claimed_reference: tuple[float | None, ...]
    against: Literal["counterpart", "claim", "nothing"]
    status: Status
    note: str
    explanation: str | None = None
    explained: float | None = None
    agreement: float | None = None
    noise_floor: float | None = None


@dataclass(frozen=True)
class SampleGroup:
    """Samples of a dump set that hold the same.

    Attributes:
        states: Of their channels; ``None`` where one is no plain state, or open.
        samples: How many there are, and
        names: some of them.
        holds: What their channels hold, in words: a state, a transform of one, ``no state``, or ``?``.
    """

    states: Wiring
    samples: int
    names: tuple[str, ...]
    holds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prediction:
    """What a drafter config would make an engine serve, under the id rule; a prediction, also where it was measured.

    Attributes:
        engine: For example ``sglang==0.5.12.post1``.
        architecture: The model class whose rule was used.
        ids: Layer ids that this engine reads from the config; ``None`` when it finds none and uses its default.
        states: The states that follow, or ``None`` when the engine would fail.
        rule: Name of the id rule.
        note: Source of the rule and how it was verified.
        trouble: Why no state is served, or what is lost on the way; empty when all is well.
        measured: What ``fix-config``'s report measured this engine to serve with this very config, if it did.
    """

    engine: str
    architecture: str
    ids: tuple[int, ...] | None
    states: Wiring | None
    rule: str
    note: str
    trouble: str = ""
    measured: Wiring | None = None


@dataclass(frozen=True)
class CompareResult:
    """What ``hsforensics compare`` found.

    Attributes:
        verdict: ``aligned`` only when both wirings are known from values and equal.
        tier: The best evidence that was at hand.
        trained_wiring: States in the dump's aux channels, in order; ``None`` when no slot is known.
        served_wiring: States that the engine fed, measured; ``None`` without a capture that holds served states.
        predicted: What the drafter's config would serve, per id rule.
        offsets: Served minus trained state for each slot; ``None`` where either is unknown or no number.
        offset_uniform: Whether all offsets are known and equal.
        channels: One record for each channel on either side.
        findings: Most severe first.
        tokens: Rows compared for the best-covered channel; each row of a sequence counts once.
        sequences: Distinct sequences compared; samples with the same tokens, or of the same request, are one.
        alignments: How rows were aligned with the capture's -> number of samples; see ``hsforensics.matching.align``.
        groups: Samples grouped by the states that they hold, largest group first; more than one is a mixed set.
    """

    verdict: Verdict
    tier: Tier
    trained_wiring: Wiring | None
    served_wiring: Wiring | None
    predicted: Prediction | None
    offsets: tuple[int | None, ...] | None
    offset_uniform: bool | None
    channels: tuple[ChannelRecord, ...]
    findings: tuple[Finding, ...]
    tokens: int
    sequences: int
    provenance: Provenance
    alignments: dict[str, int] = field(default_factory=dict)
    groups: tuple[SampleGroup, ...] = ()
    kind: Literal["compare"] = "compare"
    schema_version: Literal[1] = SCHEMA_VERSION


@dataclass(frozen=True)
class StepAccuracy:
    """Accuracy of the drafter's k-th step.

    Attributes:
        step: k, from 1.
        value: ``correct / positions``.
        interval: 95 %, over sequences; ``None`` with fewer than two sequences.
        correct: Positions where the drafter's argmax equals the target's argmax over the full vocabulary.
        positions: Positions that have a target for this step.
        trainer: The trainers' own variants, by name; formulas in the run's ``definitions``.
    """

    step: int
    value: float
    interval: Interval | None
    correct: int
    positions: int
    trainer: dict[str, float | None]


@dataclass(frozen=True)
class AcceptLength:
    """Predicted tokens per verify step, bonus token included, with greedy chain drafting.

    Attributes:
        value: ``emitted / verify_steps``; ``None`` when no stretch of the data follows the target's own choice.
        interval: 95 %, over sequences; ``None`` with fewer than two sequences.
        verify_steps: Verify steps walked.
        on_policy: Share of positions whose next token is the target's own choice. Well under 1 means that the
            target did not write the data, and that the prediction rests on easy stretches.
    """

    value: float | None
    interval: Interval | None
    verify_steps: int
    on_policy: float


@dataclass(frozen=True)
class DraftRun:
    """One evaluation of the drafter with one choice of inputs.

    Attributes:
        source: ``bank``: ``wiring`` names states. ``channels``: it names channel numbers of a dump, which prove the
            drafter and not the wiring, since a channel's label may lie.
        wiring: States or channel numbers, in ``fc`` order.
        accuracy: One entry for each step.
        accept_length: See ``AcceptLength``.
        tokens: Positions evaluated at step 1.
        sequences: Samples evaluated.
        definitions: The formula of every metric, by name.
    """

    source: Literal["bank", "channels"]
    wiring: tuple[State, ...]
    accuracy: tuple[StepAccuracy, ...]
    accept_length: AcceptLength
    tokens: int
    sequences: int
    definitions: dict[str, str]


@dataclass(frozen=True)
class DraftEvalResult:
    """What ``hsforensics draft-eval`` measured: one run for each wiring asked for, in the order asked."""

    runs: tuple[DraftRun, ...]
    findings: tuple[Finding, ...]
    provenance: Provenance
    kind: Literal["draft-eval"] = "draft-eval"
    schema_version: Literal[1] = SCHEMA_VERSION


@dataclass(frozen=True)
class ConfigEdit:
    """One value of a config that changes: dotted key, JSON text before (``None`` if absent) and after, and why."""

    key: str
    before: str | None
    after: str
    reason: str


@dataclass(frozen=True)
class ServedChange:
    """What one engine serves with a config as it is, and with the edits; predictions under the id rule."""

    before: Prediction
    after: Prediction


@dataclass(frozen=True)
class FixConfigResult:
    """What ``hsforensics fix-config`` plans or did.

    Attributes:
        wiring: The trained wiring to be served.
        before: What the config makes this engine serve now, and
        after: with the edits; both predictions under the id rule.
        edits: Changes of values; empty when there is nothing to do.
        diff: Unified diff of the file; empty when there is nothing to do.
        pending: Edits exist and were not written.
        written: Edits were written and read back.
        backup: Path of the copy of the old file, when written in place.
        others: Likewise for every further engine that was asked for.
        output: Directory that the edited config was written into instead.
        next_commands: What to type next: the same with ``--write``, or how to measure what was written.
    """

    config_path: str
    wiring: tuple[State, ...]
    before: Prediction
    after: Prediction
    edits: tuple[ConfigEdit, ...]
    diff: str
    pending: bool
    written: bool
    backup: str | None
    findings: tuple[Finding, ...]
    provenance: Provenance
    others: tuple[ServedChange, ...] = ()
    output: str | None = None
    next_commands: tuple[str, ...] = ()
    kind: Literal["fix-config"] = "fix-config"
    schema_version: Literal[1] = SCHEMA_VERSION


@dataclass(frozen=True)
class CaptureResult:
    """What ``hsforensics capture`` wrote: path, states, requests, rows, bytes on disk."""

    path: str
    states: tuple[State, ...]
    requests: int
    rows: int
    bytes: int
    findings: tuple[Finding, ...]
    provenance: Provenance
    kind: Literal["capture"] = "capture"
    schema_version: Literal[1] = SCHEMA_VERSION


@dataclass(frozen=True)
class FingerprintResult:
    """What ``hsforensics fingerprint`` wrote.

    Attributes:
        source: What it was made from.
        samples: Sequences in it, and
        channels: channels of each.
        rows: Rows kept in all.
        salted: Whether all of it is sealed under a secret.
    """

    path: str
    source: Literal["dump", "capture"]
    samples: int
    channels: int
    rows: int
    bytes: int
    salted: bool
    findings: tuple[Finding, ...]
    provenance: Provenance
    kind: Literal["fingerprint"] = "fingerprint"
    schema_version: Literal[1] = SCHEMA_VERSION
