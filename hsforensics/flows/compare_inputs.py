"""What a comparison is given: opened, read, and where it all came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hsforensics.dumps import DumpSet
from hsforensics.errors import HsfError
from hsforensics.findings import finding
from hsforensics.flows.bank import Bank
from hsforensics.flows.drafter_side import DrafterSide
from hsforensics.flows.fingerprint_sides import dtype_of
from hsforensics.flows.provenance import provenance
from hsforensics.models.target import Target
from hsforensics.results import DumpSource, Provenance, Tier
from hsforensics.states import Finding, Sample

MAX_SAMPLES = 64
"""Samples read by default: identification needs a few hundred tokens, not a training set."""


@dataclass(frozen=True)
class Inputs:
    """What a comparison was given, opened.

    Attributes:
        dumps: Where the samples come from.
        samples: Readable samples with equally many channels, at least one.
        bank: The capture; ``None`` when only the target's files are at hand.
        repeats: More captures of the same tokens by the same engine: they measure its noise.
        ranks: Captures of the other ranks of a tensor-parallel engine.
        target: The target's files, or ``None``.
        drafter: The drafter, or ``None``.
        width: H of a state, where the rows at hand are fingerprints and do not show it.
    """

    dumps: DumpSet
    samples: list[Sample]
    bank: Bank | None = None
    repeats: Bank | None = None
    ranks: tuple[Bank, ...] = ()
    target: Target | None = None
    drafter: DrafterSide | None = None
    width: int | None = None

    @property
    def hidden_size(self) -> int | None:
        """H of the target, where it is known."""
        model = self.target.hidden_size if self.target else None
        return self.width or model or (self.bank.manifest.hidden_size if self.bank else None)

    @property
    def layers(self) -> int | None:
        """L of the target, where it is known."""
        return self.target.layers if self.target else self.bank.manifest.layers if self.bank else None

    @property
    def vocab_size(self) -> int | None:
        """Rows of the target's embedding, where they are known."""
        return self.target.vocab_size if self.target else None

    @property
    def fc_channels(self) -> int | None:
        """How many states the drafter's ``fc`` takes, where it is known."""
        return self.drafter.fc_channels if self.drafter else None

    @property
    def tier(self) -> Tier:
        """The best evidence at hand."""
        if self.bank is None:
            return "files"
        return "live" if self.bank.manifest.served else "bank"


def read_samples(dumps: DumpSet, limit: int) -> tuple[list[Sample], list[Finding]]:
    """The first readable samples with equally many channels, and a finding for every file that is not one.

    Raises:
        HsfError: ``dump-unreadable``: there is no readable sample.
    """
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
        message = f"no sample is readable: {why_nothing(findings)}"
        raise HsfError("dump-unreadable", dumps.path, message, "produce the dump again")
    return samples, findings


def why_nothing(findings: Sequence[Finding]) -> str:
    """The first finding, as the reason why there is no result."""
    return f"{findings[0].where}: {findings[0].message}" if findings else "it holds no sample with rows"


def origin_of(given: Inputs, device: str, seed: int) -> Provenance:
    """Where a comparison's inputs came from."""
    held, model, drafter = given.bank.manifest if given.bank else None, given.target, given.drafter
    source = DumpSource(
        str(given.dumps.path),
        given.dumps.producer,
        len(given.samples),
        dtype_of(given.samples[0]),
        given.dumps.claim_source,
    )
    return provenance(
        target_path=str(model.path) if model else held.target_path if held else None,
        target_wrapper=model.wrapper_class if model else held.target_wrapper if held else None,
        target_inner=model.inner_class if model else held.target_inner if held else None,
        layers=given.layers,
        hidden_size=given.hidden_size,
        drafter_path=str(drafter.path) if drafter else None,
        drafter_config_sha256=drafter.config_sha256 if drafter else None,
        drafter_structure_sha256=drafter.structure_sha256 if drafter else None,
        drafter_weights_sha256=drafter.weights_sha256 if drafter else None,
        dumps=(source,),
        capture_path=str(given.bank.path) if given.bank else None,
        served_config_sha256=held.drafter_config_sha256 if held else None,
        engine=held.engine if held else None,
        engine_version=held.engine_version if held else None,
        dtype=held.dtype if held else None,
        device=device,
        seeds={"bootstrap": seed},
    )
