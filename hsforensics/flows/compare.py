"""``hsforensics compare``: which states does a dump hold, which ones are served, and are they the same?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hsforensics.capture.transformers_model import pick_device
from hsforensics.errors import HsfError
from hsforensics.findings import CATALOGUE, fill, fill_findings, finding
from hsforensics.flows.bank import Bank
from hsforensics.flows.bank_check import incomplete, refuse_tiny, sound_bank
from hsforensics.flows.channel_log import Evidence
from hsforensics.flows.compare_findings import (
    alignment_findings,
    channel_findings,
    inferred_roles,
    side_findings,
    sort_findings,
)
from hsforensics.flows.compare_inputs import MAX_SAMPLES, Inputs, origin_of, why_nothing
from hsforensics.flows.compare_sides import counterpart_findings, forbids_aligned, served_deeper
from hsforensics.flows.coverage import few_findings, forbid_few, unused_findings
from hsforensics.flows.evidence import Yardsticks, bank_evidence, bank_logs, files_evidence
from hsforensics.flows.explaining import Explainer, all_findings, excluded_slots, explained_slots
from hsforensics.flows.groups import group_findings, sample_groups
from hsforensics.flows.known import known_paths, known_words
from hsforensics.flows.opening import open_inputs
from hsforensics.flows.padding import without_padding
from hsforensics.flows.pairing import Pair, pair_samples
from hsforensics.flows.prediction import PredictionWish, nothing_predicted, predict_serving
from hsforensics.flows.rank_sums import settle_ranks
from hsforensics.flows.recognise import COMPARE_CALL, recognising
from hsforensics.flows.repeats import Repeats, find_repeats, pair_items, repeat_findings, sample_items
from hsforensics.flows.resplit import split_findings
from hsforensics.flows.sample_health import sample_findings
from hsforensics.flows.structure import settle_shapes
from hsforensics.matching.records import ChannelFacts, pair_up, roles_for, settle_roles, wiring_of
from hsforensics.matching.verdict import Judgement, judge
from hsforensics.results import CompareResult, Prediction, SampleGroup
from hsforensics.states import POSTNORM, Finding, Role, Severity, Side, State, Wiring

ENOUGH_PAIRS = 8
"""With so many samples compared, the ones left out of a capture are no reason to worry."""


@recognising(COMPARE_CALL)
def compare(
    dumps: Path,
    capture: Path | None = None,
    *,
    target: Path | None = None,
    drafter: Path | None = None,
    claims: tuple[State, ...] | None = None,
    engine: str | None = None,
    architecture: str | None = None,
    introspect: str | None = None,
    repeat: Path | None = None,
    ranks: Sequence[Path] = (),
    salt: str | None = None,
    max_samples: int = MAX_SAMPLES,
    device: str = "auto",
    seed: int = 0,
) -> CompareResult:
    """Identify every channel of a dump, and of a capture's served states, and judge whether they agree.

    Three tiers of evidence, by what is given: the target's files alone (is a channel the embedding, is it postnorm?),
    a bank (which state is it?), a live capture (what does the engine feed?).

    Args:
        dumps: Training data: a directory or a file that a reader knows; or a fingerprint of it.
        capture: A capture of the same token ids, a bank, or a live one with served states; or a fingerprint of it.
        target: Directory of the target model; needed without a capture, optional with one.
        drafter: Directory of the drafter: the width of its ``fc`` settles which channels are aux, and its config is
            read for a prediction of what would be served.
        claims: States that somebody says the channels hold, in file order; overrides the dump's own labels.
        engine: ``name==version`` to predict for, such as ``sglang==0.5.12.post1``; a live capture's own by default.
        architecture: Model class to predict for; the target's own by default.
        introspect: Code of an SGLang to read the id rule from, instead of the tables.
        repeat: A second capture of the same tokens by the same engine: it measures the noise floor.
        ranks: Captures of the other ranks of a tensor-parallel engine, to confirm a sum that was not reduced.
        salt: Secret that a fingerprint was made under; one for both sides.
        max_samples: Samples to read at most.
        device: ``cpu``, ``cuda`` or ``auto`` for the distances.
        seed: Seed of the bootstrap.

    Raises:
        HsfError: An input is missing, unreadable or foreign, or nothing could be compared.
    """
    given, findings = open_inputs(
        dumps,
        capture,
        target=target,
        drafter=drafter,
        claims=claims,
        max_samples=max_samples,
        repeat=repeat,
        ranks=ranks,
        salt=salt,
    )
    return compare_inputs(
        given,
        findings,
        drafter=drafter,
        engine=engine,
        architecture=architecture,
        introspect=introspect,
        device=device,
        seed=seed,
    )


def compare_inputs(
    given: Inputs,
    findings: Sequence[Finding] = (),
    *,
    drafter: Path | None = None,
    engine: str | None = None,
    architecture: str | None = None,
    introspect: str | None = None,
    device: str = "auto",
    seed: int = 0,
) -> CompareResult:
    """``compare`` for inputs that are open already; ``findings`` are those made while opening them."""
    place = str(pick_device(device))
    samples, padding = without_padding(given.samples, given.target.padding_ids if given.target else ())
    given = replace(given, samples=samples)
    seen = _look(given, place, seed)
    origin = origin_of(given, place, seed)
    served = [_facts("served", item, None, "aux") for item in seen.served]
    trained, inferred = _dump_facts(given, seen)
    known = wiring_of(trained), wiring_of(served)
    predicted: Prediction | None = None
    notes = [*seen.findings, *findings, *inferred, *padding]
    if drafter is None:
        notes += nothing_predicted({"--engine": engine, "--architecture": architecture, "--introspect": introspect})
    if seen.bank is not None and seen.yardsticks is not None:
        notes += unused_findings(seen.pairs, seen.bank, known[1], seen.yardsticks)
    if drafter:
        predicted, more = predict_serving(drafter, origin, *known, PredictionWish(engine, architecture, introspect))
        same = origin.served_config_sha256 in (None, origin.drafter_config_sha256)
        notes += [*more, *(served_deeper(predicted, known[1]) if same else [])]
    records = pair_up(trained, served)
    judgement = forbid_few(_judge(seen, trained, served, known, notes), records)
    notes += channel_findings(
        trained,
        served,
        layers=given.layers,
        fc_channels=given.fc_channels,
        label_severity="warning" if judgement.verdict == "aligned" else "error",
    )
    if not any(record.tokens for record in records) and not seen.structural:
        message = why_nothing([item for item in notes if item.severity == "error"] or notes)
        raise HsfError("nothing-compared", given.dumps.path, message, "produce the dump again, or check the target")
    tokens, sequences = min(max(record.tokens for record in records), seen.repeats.tokens), seen.repeats.sequences
    notes += [*repeat_findings(seen.repeats), *few_findings(tokens, sequences)]
    words = known_words(origin, predicted.engine if predicted else engine)
    return CompareResult(
        verdict=judgement.verdict,
        tier=given.tier,
        trained_wiring=known[0],
        served_wiring=known[1],
        predicted=predicted,
        offsets=judgement.offsets,
        offset_uniform=judgement.offset_uniform,
        channels=records,
        findings=fill_findings(sort_findings([*judgement.findings, *notes]), words),
        tokens=tokens,
        sequences=sequences,
        provenance=origin,
        alignments=dict(Counter(pair.alignment.how for pair in seen.pairs)),
        groups=seen.groups,
    )


@dataclass(frozen=True)
class _Seen:
    """Everything that values said: evidence of both sides, how rows were aligned, repeats, groups, findings so far."""

    trained: list[Evidence]
    repeats: Repeats
    served: list[Evidence] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    groups: tuple[SampleGroup, ...] = ()
    structural: tuple[Finding, ...] = ()
    findings: tuple[Finding, ...] = ()
    bank: Bank | None = None
    yardsticks: Yardsticks | None = None


def _look(given: Inputs, device: str, seed: int) -> _Seen:
    health = sample_findings(given.samples, given.vocab_size)
    if given.bank is None:
        assert given.target is not None  # noqa: S101 (open_inputs has seen to it)
        repeats = find_repeats(sample_items(given.samples))
        trained = files_evidence(given.samples, given.target, repeats, seed)
        groups = sample_groups([sample.name for sample in given.samples], trained, repeats)
        seen = (*all_findings(trained), *health, *group_findings(groups, trained))
        return _Seen(trained, repeats, groups=groups, findings=seen)
    refuse_tiny(given.bank)
    pairs, unpaired = _pair(given)
    repeats = find_repeats(pair_items(pairs))
    logs = [bank_logs(pairs, given.bank, repeats, served=side, device=device) for side in (False, True)]
    bank, broken = sound_bank(given.bank, [log for side in logs for log in side])
    yardsticks = Yardsticks(bank, pairs, given.repeats)
    sides = []
    for is_served, side in zip((False, True), logs, strict=True):
        plain = bank_evidence(side, pairs, bank, yardsticks, repeats, served=is_served, seed=seed)
        sides.append(Explainer(pairs, bank, yardsticks, is_served).explain_all(plain))
    trained, misfits = settle_shapes(pairs, bank, sides[0])
    served, apart = settle_ranks(pairs, bank, given.ranks, sides[1])
    groups = sample_groups([pair.sample.name for pair in pairs], trained, repeats)
    structural = (*misfits, *split_findings(pairs[0], bank, trained, served))
    notes = [*structural, *all_findings(trained), *all_findings(served), *health, *group_findings(groups, trained)]
    notes += [*unpaired, *alignment_findings(pairs), *apart, *broken, *incomplete(bank)]
    return _Seen(trained, repeats, served, pairs, groups, structural, tuple(notes), bank, yardsticks)


def _judge(
    seen: _Seen,
    trained: Sequence[ChannelFacts],
    served: Sequence[ChannelFacts],
    known: tuple[Wiring | None, Wiring | None],
    notes: list[Finding],
) -> Judgement:
    """The verdict; findings about the pair of sides as wholes are added to ``notes``."""
    aux = [item for item, facts in zip(seen.trained, trained, strict=True) if facts.role == "aux"]
    differ = explained_slots(aux, seen.served)
    excluded = excluded_slots(aux, seen.served)
    judgement = judge(*known, (len(aux), len(served) or None), differ, excluded)
    notes += side_findings(trained) + side_findings(served)
    if seen.served and seen.bank is not None:
        notes += counterpart_findings(seen.pairs, aux, seen.served, known, seen.bank)
    return forbids_aligned(judgement, notes)


def _pair(given: Inputs) -> tuple[list[Pair], list[Finding]]:
    assert given.bank is not None  # noqa: S101 (the caller has seen to it)
    pairs, alone = pair_samples(given.samples, given.bank)
    where = given.dumps.path
    if not pairs:
        message = f"none of its {len(given.bank.requests)} requests has the tokens of a sample in {where}"
        words = known_paths(DUMPS=where, MODEL=given.target.path if given.target else given.bank.manifest.target_path)
        remedy = f"capture these dumps: {fill(CATALOGUE['tokens-unmatched'].commands[0], words)}"
        raise HsfError("nothing-compared", given.bank.path, message, remedy)
    if not alone:
        return pairs, []
    share = f"{len(alone)} of {len(given.samples)} samples"
    names = ", ".join(sample.name for sample in alone[:3])
    message = f"{share} have no request with their tokens; {len(pairs)} were compared"
    enough: Severity = "info" if len(pairs) >= ENOUGH_PAIRS else "warning"  # captures of some samples are the rule
    return pairs, [finding("tokens-unmatched", names, message, share, severity=enough)]


def _dump_facts(given: Inputs, seen: _Seen) -> tuple[list[ChannelFacts], list[Finding]]:
    """Facts of the dump's channels with their roles, and a finding where the served count settled the roles."""
    channels = given.samples[0].channels
    labels = [channel.label for channel in channels]
    roles = roles_for(labels, given.fc_channels)
    found: list[Finding] = []
    if given.fc_channels is None:
        last, theirs = seen.trained[-1].match.known, seen.served[-1].match.known if seen.served else None
        final = [state for state in (given.layers, POSTNORM) if state != theirs]
        if settle_roles(roles, last, len(seen.served), final):
            roles = roles_for(labels, len(labels))
            found = list(inferred_roles(labels, last, len(seen.served)))
    rows = zip(seen.trained, channels, roles, strict=True)
    return [_facts("dump", item, channel.claim, role) for item, channel, role in rows], found


def _facts(side: Side, item: Evidence, claim: State | None, role: Role) -> ChannelFacts:
    return ChannelFacts(
        side=side,
        index=item.index,
        label=item.label,
        claim=claim,
        role=role,
        match=item.match,
        norm=item.norm,
        row=item.row,
        values=item.values,
        reference=item.reference,
        claimed_reference=item.claimed_reference,
        explanation=item.explanation,
        agreement=item.agreement,
    )
