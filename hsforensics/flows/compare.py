"""``hsforensics compare``: which states does a dump hold, which ones are served, and are they the same?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hsforensics.capture.store import Capture, open_capture
from hsforensics.dumps import DumpSet, open_dumps
from hsforensics.errors import HsfError
from hsforensics.findings import finding
from hsforensics.flows.compare_findings import channel_findings, sort_findings
from hsforensics.flows.drafter_side import DrafterSide, read_drafter_side
from hsforensics.flows.evidence import Evidence, bank_evidence, files_evidence
from hsforensics.flows.pairing import Pair, pair_samples
from hsforensics.flows.prediction import predict_serving
from hsforensics.flows.provenance import provenance
from hsforensics.matching.records import ChannelFacts, pair_up, roles_for, wiring_of
from hsforensics.matching.verdict import judge
from hsforensics.models.target import Target, load_target
from hsforensics.results import CompareResult, DumpSource, Provenance, Tier
from hsforensics.states import Finding, Role, Sample, Side, State

MAX_SAMPLES = 64
"""Samples read by default: identification needs a few hundred tokens, not a training set."""


@dataclass(frozen=True)
class _Inputs:
    """What a comparison was given, opened; ``capture``, ``target`` and ``drafter`` may be absent."""

    dumps: DumpSet
    samples: list[Sample]
    capture: Capture | None
    target: Target | None
    drafter: DrafterSide | None

    @property
    def layers(self) -> int | None:
        return self.target.layers if self.target else self.capture.manifest.layers if self.capture else None

    @property
    def tier(self) -> Tier:
        if self.capture is None:
            return "files"
        return "live" if self.capture.manifest.served else "bank"


def compare(
    dumps: Path,
    capture: Path | None = None,
    *,
    target: Path | None = None,
    drafter: Path | None = None,
    claims: tuple[State, ...] | None = None,
    engine: str | None = None,
    architecture: str | None = None,
    max_samples: int = MAX_SAMPLES,
    device: str = "auto",
    seed: int = 0,
) -> CompareResult:
    """Identify every channel of a dump, and of a capture's served states, and judge whether they agree.

    Three tiers of evidence, by what is given: the target's files alone (is a channel the embedding, is it postnorm?),
    a bank (which state is it?), a live capture (what does the engine feed?).

    Args:
        dumps: Training data: a directory or a file that a reader knows.
        capture: A capture of the same token ids: a bank, or a live one with served states.
        target: Directory of the target model; needed without a capture, optional with one.
        drafter: Directory of the drafter: the width of its ``fc`` settles which channels are aux, and its config is
            read for a prediction of what would be served.
        claims: States that somebody says the channels hold, in file order; overrides the dump's own labels.
        engine: ``name==version`` to predict for, such as ``sglang==0.5.12.post1``; a live capture's own by default.
        architecture: Model class to predict for; the target's own by default.
        max_samples: Samples to read at most.
        device: ``cpu``, ``cuda`` or ``auto`` for the distances.
        seed: Seed of the bootstrap.

    Raises:
        HsfError: An input is missing, unreadable or foreign, or nothing could be compared.
    """
    given, findings = _open(dumps, capture, target, drafter, claims, max_samples)
    pairs: list[Pair] = []
    if given.capture is None:
        assert given.target is not None  # noqa: S101 (_open has seen to it)
        trained, served = files_evidence(given.samples, given.target), []
    else:
        pairs, unpaired = _pair(given, given.capture)
        findings += unpaired
        trained = bank_evidence(pairs, given.capture, served=False, device=_pick_device(device), seed=seed)
        served = bank_evidence(pairs, given.capture, served=True, device=_pick_device(device), seed=seed)
    for evidence in (*trained, *served):
        findings += evidence.findings
    origin = _provenance(given, _pick_device(device), seed)
    dump_facts, served_facts = _dump_facts(given, trained), [_facts("served", item, None, "aux") for item in served]
    fc_channels = given.drafter.fc_channels if given.drafter else None
    known = wiring_of(dump_facts), wiring_of(served_facts)
    predicted, more = (
        predict_serving(drafter, origin, *known, engine=engine, architecture=architecture) if drafter else (None, [])
    )
    slots = sum(item.role == "aux" for item in dump_facts)
    judgement = judge(*known, (slots, len(served_facts) or None))
    findings += channel_findings(
        dump_facts,
        served_facts,
        layers=given.layers,
        fc_channels=fc_channels,
        label_severity="warning" if judgement.verdict == "aligned" else "error",
    )
    records = pair_up(dump_facts, served_facts)
    if not any(record.tokens for record in records):
        raise HsfError("nothing-compared", dumps, _why_nothing(findings), "produce the dump again, or check the target")
    return CompareResult(
        verdict=judgement.verdict,
        tier=given.tier,
        trained_wiring=known[0],
        served_wiring=known[1],
        predicted=predicted,
        offsets=judgement.offsets,
        offset_uniform=judgement.offset_uniform,
        channels=records,
        findings=sort_findings([*judgement.findings, *findings, *more]),
        tokens=max(record.tokens for record in records),
        sequences=len(pairs) or len(given.samples),
        provenance=origin,
    )


def _open(
    dumps: Path,
    capture: Path | None,
    target: Path | None,
    drafter: Path | None,
    claims: tuple[State, ...] | None,
    max_samples: int,
) -> tuple[_Inputs, list[Finding]]:
    if capture is None and target is None:
        raise HsfError("usage", "compare", "nothing to compare with", "add --target MODEL, or name a CAPTURE")
    opened = open_dumps(dumps, claims)
    held = open_capture(capture) if capture else None
    model = load_target(target) if target else None
    hidden = model.hidden_size if model else held.manifest.hidden_size if held else None
    side = read_drafter_side(drafter, hidden) if drafter else None
    samples, unreadable = _read_samples(opened, max_samples)
    return _Inputs(opened, samples, held, model, side), unreadable


def _read_samples(dumps: DumpSet, limit: int) -> tuple[list[Sample], list[Finding]]:
    """The first readable samples with equally many channels, and a finding for every file that is not one."""
    samples: list[Sample] = []
    findings: list[Finding] = []
    for file in dumps.files[:limit]:
        try:
            sample = dumps.read(file)
        except HsfError as error:
            findings.append(finding("file-unreadable", error.where, error.message, error.code, remedy=error.remedy))
            continue
        if samples and len(sample.channels) != len(samples[0].channels):
            message = f"holds {len(sample.channels)} channels; {samples[0].name} holds {len(samples[0].channels)}"
            findings.append(finding("file-unreadable", sample.name, message, "mixed layouts in one directory"))
            continue
        samples.append(sample)
    if not samples:
        message = f"no sample is readable: {_why_nothing(findings)}"
        raise HsfError("dump-unreadable", dumps.path, message, "produce the dump again")
    return samples, findings


def _why_nothing(findings: Sequence[Finding]) -> str:
    return f"{findings[0].where}: {findings[0].message}" if findings else "it holds no sample with rows"


def _pick_device(device: str) -> str:
    if device != "auto":
        return device
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _pair(given: _Inputs, capture: Capture) -> tuple[list[Pair], list[Finding]]:
    pairs, alone = pair_samples(given.samples, capture)
    where = given.dumps.path
    if not pairs:
        message = f"none of its {len(capture.requests)} requests has the tokens of a sample in {where}"
        remedy = f"capture these dumps: hsforensics capture {where} --target MODEL -o CAPTURE"
        raise HsfError("nothing-compared", capture.path, message, remedy)
    if not alone:
        return pairs, []
    share = f"{len(alone)} of {len(given.samples)} samples"
    names = ", ".join(sample.name for sample in alone[:3])
    return pairs, [finding("tokens-unmatched", names, f"{share} have no request with their tokens", share)]


def _dump_facts(given: _Inputs, evidence: Sequence[Evidence]) -> list[ChannelFacts]:
    channels = given.samples[0].channels
    fc_channels = given.drafter.fc_channels if given.drafter else None
    roles = roles_for([channel.label for channel in channels], fc_channels)
    rows = zip(evidence, channels, roles, strict=True)
    return [_facts("dump", item, channel.claim, role) for item, channel, role in rows]


def _facts(side: Side, item: Evidence, claim: State | None, role: Role) -> ChannelFacts:
    shown = (item.values, item.reference, item.claimed_reference)
    return ChannelFacts(side, item.index, item.label, claim, role, item.match, item.norm, item.row, *shown)


def _provenance(given: _Inputs, device: str, seed: int) -> Provenance:
    held, model, drafter = given.capture.manifest if given.capture else None, given.target, given.drafter
    dtypes = {str(channel.values.dtype).removeprefix("torch.") for channel in given.samples[0].channels}
    source = DumpSource(
        str(given.dumps.path),
        given.dumps.producer,
        len(given.samples),
        "/".join(sorted(dtypes)),
        given.dumps.claim_source,
    )
    return provenance(
        target_path=str(model.path) if model else held.target_path if held else None,
        target_wrapper=model.wrapper_class if model else held.target_wrapper if held else None,
        target_inner=model.inner_class if model else held.target_inner if held else None,
        layers=given.layers,
        hidden_size=model.hidden_size if model else held.hidden_size if held else None,
        drafter_path=str(drafter.path) if drafter else None,
        drafter_config_sha256=drafter.config_sha256 if drafter else None,
        drafter_structure_sha256=drafter.structure_sha256 if drafter else None,
        dumps=(source,),
        capture_path=str(given.capture.path) if given.capture else None,
        engine=held.engine if held else None,
        engine_version=held.engine_version if held else None,
        dtype=held.dtype if held else None,
        device=device,
        seeds={"bootstrap": seed},
    )
