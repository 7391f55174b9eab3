"""``fingerprint``: a portable summary of dumps or of a capture; and fingerprints as sides of a comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hsforensics.capture.manifest import ManifestHeader, is_capture, nonsense
from hsforensics.capture.store import open_capture
from hsforensics.dumps import DumpSet, open_dumps
from hsforensics.dumps.layout import RawSample
from hsforensics.errors import HsfError
from hsforensics.flows.bank import Bank
from hsforensics.flows.compare_inputs import MAX_SAMPLES, Inputs, read_samples
from hsforensics.flows.fingerprint_file import Described, Stored, read_fingerprint, write_fingerprint
from hsforensics.flows.fingerprint_sides import (
    SketchedSample,
    SketchRule,
    dtype_of,
    reduced_header,
    sketch_bank,
    sketch_samples,
)
from hsforensics.flows.health_findings import health_findings
from hsforensics.flows.known import FINGERPRINT
from hsforensics.flows.memory_bank import FirstValues, MemoryBank, MemoryRequest
from hsforensics.flows.provenance import provenance
from hsforensics.flows.recognise import FINGERPRINT_CALL, recognising
from hsforensics.matching.fingerprint import Sketch, choose_windows, places_of, sketch
from hsforensics.matching.health import HealthIssue
from hsforensics.results import FingerprintResult
from hsforensics.states import Channel, Finding, Sample

if TYPE_CHECKING:
    from torch import Tensor


@recognising(FINGERPRINT_CALL)
def fingerprint(
    path: Path, out: Path, *, salt: str | None = None, seed: int = 0, max_samples: int = MAX_SAMPLES
) -> FingerprintResult:
    """Write the fingerprint of training dumps, or of a capture, that ``compare`` takes in place of either.

    Args:
        path: Dumps or a capture.
        out: The file to write; must not exist.
        salt: Secret that the whole file is sealed under; both sides of a comparison need the same one.
        seed: Of the projection; both sides need the same one.
        max_samples: Samples to read at most.

    Raises:
        HsfError: The path is unreadable, ``out`` exists, no sample has a usable channel, or the salt is empty.
    """
    if salt == "":
        raise HsfError("usage", "--salt", "is empty", "give a long random text, or leave it out")
    rule = SketchRule(seed)
    findings: list[Finding] = []
    if is_capture(path):
        described, stored = _of_capture(open_capture(path), rule, max_samples)
    else:
        described, stored, findings = _of_dumps(open_dumps(path), rule, max_samples)
    size = write_fingerprint(out, described, stored, salt)
    return FingerprintResult(
        path=str(out),
        source=described.kind,
        samples=len(stored),
        channels=len(described.labels),
        rows=sum(len(item.keys) for item in stored),
        bytes=size,
        salted=salt is not None,
        findings=tuple(findings),
        provenance=provenance(hidden_size=described.width, seeds={"projection": seed}),
    )


def _of_capture(bank: Bank, rule: SketchRule, limit: int) -> tuple[Described, list[Stored]]:
    header, stored = bank.manifest, []
    for entry in bank.requests[:limit]:
        held = bank.read(entry)
        channels = [*(held.state(state) for state in header.states), *(c.values for c in held.served)]
        stored.append(_store(held.token_ids.long().cpu(), channels, rule))
    labels = (*map(str, header.states), *(f"served.{slot}" for slot in range(header.served)))
    fields = {name: value for name, value in asdict(header).items() if name in ManifestHeader.__dataclass_fields__}
    names = tuple(entry.file for entry in bank.requests[:limit])
    nobody = (None,) * len(labels)
    engine = f"{header.engine} {header.engine_version}"
    lengths, width = tuple(item.places.length for item in stored), header.hidden_size
    described = Described("capture", rule.seed, width, names, lengths, labels, nobody, engine, None, fields)
    return described, stored


def _of_dumps(dumps: DumpSet, rule: SketchRule, limit: int) -> tuple[Described, list[Stored], list[Finding]]:
    samples, findings = read_samples(dumps, limit)
    width = max(channel.values.shape[1] for channel in samples[0].channels)
    stored: list[Stored] = []
    unfit: list[tuple[str, HealthIssue]] = []
    names = []
    for sample in samples:
        shapes = {tuple(channel.values.shape) for channel in sample.channels}
        if shapes != {(len(sample.token_ids), width)}:
            message = f"channels of shapes {sorted(shapes)} for {len(sample.token_ids)} tokens and width {width}"
            unfit.append((sample.name, HealthIssue("shape", len(sample.token_ids), 0, f"left out: {message}")))
            continue
        keys = sample.token_ids.long().cpu()
        stored.append(_store(keys, [channel.values for channel in sample.channels], rule))
        names.append(sample.name)
    if not stored:
        raise HsfError("nothing-compared", dumps.path, "no sample has channels that fit its tokens", "dump again")
    channels = samples[0].channels
    described = Described(
        "dump",
        rule.seed,
        width,
        tuple(names),
        tuple(item.places.length for item in stored),
        tuple(channel.label for channel in channels),
        tuple(channel.claim for channel in channels),
        dumps.producer,
        dumps.claim_source,
        {},
        dtype_of(samples[0]),
    )
    return described, stored, [*findings, *health_findings(unfit)]


def _store(keys: Tensor, channels: list[Tensor], rule: SketchRule) -> Stored:
    import torch

    windows = choose_windows(keys)
    found: list[Sketch] = [sketch(values, windows, rule.seed) for values in channels]
    chosen = torch.cat([keys[start : start + count] for start, count in windows])
    first = torch.stack([item.first for item in found])
    unit, norm = torch.stack([item.unit for item in found]), torch.stack([item.norm for item in found])
    return Stored(chosen, unit, norm, first, places_of(keys, windows))


def fingerprint_dumps(path: Path, salt: str | None = None) -> tuple[DumpSet, list[Sample], Described]:
    """A dump's fingerprint, made under a salt or none, as the dump side of a comparison.

    Raises:
        HsfError: ``usage`` when it was made from a capture or under another salt; ``capture-foreign`` when it cannot
            be read.
    """
    described, stored = read_fingerprint(path, salt)
    if described.kind != "dump":
        raise HsfError("usage", path, "is the fingerprint of a capture, not of dumps", "give it as the second argument")
    dumps = DumpSet(path, f"{FINGERPRINT}{described.producer}", (), None, described.claim_source, _unread)
    return dumps, list(_samples(path, described, stored)), described


def _samples(path: Path, described: Described, stored: list[Stored]) -> Iterator[Sample]:
    for name, item in zip(described.names, stored, strict=True):
        named = zip(described.labels, described.claims, item.values, strict=True)
        channels = tuple(Channel(i, label, claim, rows) for i, (label, claim, rows) in enumerate(named))
        first = tuple(item.first)
        yield SketchedSample(name, path, item.keys, channels, places=item.places, first=first, dtype=described.dtype)


def _unread(path: Path) -> RawSample:
    raise HsfError("usage", path, "a fingerprint holds no files", "give the dumps themselves")


def fingerprint_bank(path: Path, salt: str | None = None) -> tuple[MemoryBank, Described]:
    """A capture's fingerprint, made under a salt or none, as the capture side of a comparison.

    Raises:
        HsfError: ``usage`` when it was made from dumps or under another salt; ``capture-foreign`` when it cannot be
            read.
    """
    described, stored = read_fingerprint(path, salt)
    if described.kind != "capture":
        raise HsfError("usage", path, "is the fingerprint of dumps, not of a capture", "give it as the first argument")
    header = _header(path, described)
    count = len(header.states)
    requests = []
    for item in stored:
        served = tuple(Channel(i, f"served.{i}", None, rows) for i, rows in enumerate(item.values[count:]))
        states = dict(zip(header.states, item.values[:count], strict=True))
        first = FirstValues(dict(zip(header.states, item.first[:count], strict=True)), tuple(item.first[count:]))
        requests.append(MemoryRequest(item.keys, states, served, item.places, first=first))
    return MemoryBank(path, reduced_header(header), requests, sketched=True), described


def _header(path: Path, described: Described) -> ManifestHeader:
    """The header of the capture that a fingerprint was made of; a stranger's, so checked like a capture's own."""
    from pydantic import TypeAdapter, ValidationError

    try:
        header = TypeAdapter(ManifestHeader).validate_json(json.dumps(described.header), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        message: str | None = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    else:
        promised, held = (
            (len(header.states) + header.served, header.hidden_size),
            (len(described.labels), described.width),
        )
        differ = f"promises {promised[0]} channels {promised[1]} wide, and its labels {held[0]}, {held[1]} wide"
        message = nonsense(header) or (differ if promised != held else None)
        if message is None:
            return header
    raise HsfError(
        "capture-foreign", path, f"the capture's header: {message}", "make it again with hsforensics fingerprint"
    )


def sketched_inputs(
    given: Inputs, dump_side: Described | None, bank_side: Described | None
) -> tuple[Inputs, list[Finding]]:
    """Both sides as fingerprints under one rule, when at least one of them is one.

    Raises:
        HsfError: ``usage``: the two were made under different rules, or ranks are given.
    """
    made = dump_side or bank_side
    if made is None or given.bank is None:
        return given, []
    if given.ranks:
        message = "sums of ranks need the rows themselves, not fingerprints"
        raise HsfError("usage", "--rank", message, "leave out --rank, or give dumps and captures")
    if dump_side and bank_side and _rule(dump_side) != _rule(bank_side):
        message = f"seed and width are {_rule(dump_side)} and {_rule(bank_side)}"
        raise HsfError("usage", given.bank.path, message, "make both fingerprints with the same --seed")
    rule = SketchRule(made.seed, made.width)
    samples, notes = (given.samples, []) if dump_side else sketch_samples(given.samples, rule)
    bank = given.bank if bank_side else sketch_bank(given.bank, rule)
    repeats = sketch_bank(given.repeats, rule) if given.repeats else None
    return replace(given, samples=samples, bank=bank, repeats=repeats, target=None), notes


def _rule(described: Described) -> tuple[int, int]:
    return described.seed, described.width
