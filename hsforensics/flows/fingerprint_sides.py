"""Dumps and captures as fingerprints in memory: reduced, but of the same types that a comparison works on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hsforensics.capture.manifest import ManifestHeader
from hsforensics.findings import finding
from hsforensics.flows.bank import Bank
from hsforensics.flows.memory_bank import MemoryBank, MemoryRequest
from hsforensics.matching.align_windows import Places
from hsforensics.matching.fingerprint import COLUMNS, choose_windows, places_of, sketch, token_keys
from hsforensics.states import Finding, Sample

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SketchRule:
    """What two fingerprints must share to be comparable.

    Attributes:
        seed: Of the projection.
        salt: Secret that token ids are hashed under, or ``None`` for plain ids.
        width: H of the rows before projection, ``None`` for any.
    """

    seed: int = 0
    salt: str | None = None
    width: int | None = None


@dataclass(frozen=True)
class SketchedSample(Sample):
    """A sample of which chosen rows are left; ``token_ids`` are their keys, ``places`` where they lie."""

    places: Places | None = None


def sketch_samples(samples: Iterable[Sample], rule: SketchRule) -> tuple[list[Sample], list[Finding]]:
    """Dump samples as fingerprints: tokens become keys of the chosen rows, channels [R, 64].

    A channel whose shape does not fit becomes NaN, with a finding.
    """
    found: list[Sample] = []
    notes: list[Finding] = []
    for sample in samples:
        keys = token_keys(sample.token_ids, rule.salt)
        windows = choose_windows(keys)
        channels = []
        for channel in sample.channels:
            values, note = _reduce(channel.values, keys, windows, rule)
            channels.append(replace(channel, values=values))
            if note:
                notes.append(finding("channel-unreadable", f"{sample.name}, {channel.label}", note, "fingerprint"))
        rest, places = tuple(channels), places_of(keys, windows)
        found.append(SketchedSample(sample.name, sample.path, _chosen(keys, windows), rest, places=places))
    return found, notes


def _reduce(
    values: Tensor, keys: Tensor, windows: Sequence[tuple[int, int]], rule: SketchRule
) -> tuple[Tensor, str | None]:
    import torch

    rows, width = values.shape
    if rows == len(keys) and rule.width in (None, width):
        return sketch(values, windows, rule.seed).values, None
    lost = torch.full((sum(count for _, count in windows), COLUMNS), float("nan"))
    return lost, f"{rows} rows of width {width} for {len(keys)} tokens and width {rule.width or width}"


def _chosen(keys: Tensor, windows: Sequence[tuple[int, int]]) -> Tensor:
    import torch

    return torch.cat([keys[start : start + count] for start, count in windows]) if windows else keys[:0]


def sketch_bank(bank: Bank, rule: SketchRule) -> MemoryBank:
    """A capture as fingerprints, all states and served channels."""
    requests = []
    for entry in bank.requests:
        held = bank.read(entry)
        keys = token_keys(held.token_ids, rule.salt)
        windows = choose_windows(keys)
        states = {s: sketch(held.state(s), windows, rule.seed).values for s in bank.manifest.states}
        served = tuple(replace(c, values=sketch(c.values, windows, rule.seed).values) for c in held.served)
        requests.append(MemoryRequest(_chosen(keys, windows), states, served, places_of(keys, windows)))
    return MemoryBank(bank.path, reduced_header(bank.manifest), requests, sketched=True)


def reduced_header(header: ManifestHeader) -> ManifestHeader:
    """The header of a capture whose rows are projected: 64 wide."""
    names = ManifestHeader.__dataclass_fields__
    return ManifestHeader(**{name: getattr(header, name) for name in names} | {"hidden_size": COLUMNS, "ranks": 1})
