"""Dumps and captures as fingerprints in memory: reduced, but of the same types that a comparison works on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hsforensics.capture.manifest import ManifestHeader
from hsforensics.flows.bank import Bank
from hsforensics.flows.health_findings import health_findings
from hsforensics.flows.memory_bank import FirstValues, MemoryBank, MemoryRequest
from hsforensics.matching.align_windows import Places
from hsforensics.matching.fingerprint import COLUMNS, FIRST, Sketch, choose_windows, places_of, sketch
from hsforensics.matching.health import HealthIssue
from hsforensics.states import Finding, Sample

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SketchRule:
    """What two fingerprints must share to be comparable.

    Attributes:
        seed: Of the projection.
        width: H of the rows before projection, ``None`` for any.
    """

    seed: int = 0
    width: int | None = None


@dataclass(frozen=True)
class SketchedSample(Sample):
    """A sample of which chosen rows are left.

    ``token_ids`` are their keys, ``places`` where they lie, ``first`` the first values of each channel, [R, 4],
    ``dtype`` what the whole rows were stored in.
    """

    places: Places | None = None
    first: tuple[Tensor, ...] = ()
    dtype: str | None = None


def dtype_of(sample: Sample) -> str | None:
    """What a sample's channels are stored in, several joined by a stroke; ``None`` where a fingerprint does not say."""
    if isinstance(sample, SketchedSample):
        return sample.dtype
    names = {str(channel.values.dtype).removeprefix("torch.") for channel in sample.channels}
    return "/".join(sorted(names))


def sketch_samples(samples: Iterable[Sample], rule: SketchRule) -> tuple[list[Sample], list[Finding]]:
    """Dump samples as fingerprints: tokens become keys of the chosen rows, channels [R, 64].

    A channel whose shape does not fit becomes NaN, with one finding for all samples of that channel.
    """
    found: list[Sample] = []
    noted: dict[str, list[tuple[str, HealthIssue]]] = {}
    for sample in samples:
        keys = sample.token_ids.long().cpu()
        windows = choose_windows(keys)
        channels, first = [], []
        for channel in sample.channels:
            reduced, note = _reduce(channel.values, keys, windows, rule)
            channels.append(replace(channel, values=reduced.values))
            first.append(reduced.first)
            if note:
                noted.setdefault(channel.label, []).append((sample.name, note))
        rest, places = tuple(channels), places_of(keys, windows)
        kept = _chosen(keys, windows)
        dtype = dtype_of(sample)
        made = SketchedSample(sample.name, sample.path, kept, rest, places=places, first=tuple(first), dtype=dtype)
        found.append(made)
    return found, [note for label, items in noted.items() for note in health_findings(items, label)]


def _reduce(
    values: Tensor, keys: Tensor, windows: Sequence[tuple[int, int]], rule: SketchRule
) -> tuple[Sketch, HealthIssue | None]:
    import torch

    rows, width = values.shape
    if rows == len(keys) and rule.width in (None, width):
        return sketch(values, windows, rule.seed), None
    lost = torch.full((sum(count for _, count in windows), COLUMNS), float("nan"))
    wanted = f"{len(keys)} tokens and width {rule.width or width}"
    note = HealthIssue("shape", rows, 0, f"{rows} rows of width {width} for {wanted}")
    return Sketch(lost, lost[:, 0], lost[:, :FIRST]), note


def _chosen(keys: Tensor, windows: Sequence[tuple[int, int]]) -> Tensor:
    import torch

    return torch.cat([keys[start : start + count] for start, count in windows]) if windows else keys[:0]


def sketch_bank(bank: Bank, rule: SketchRule) -> MemoryBank:
    """A capture as fingerprints, all states and served channels."""
    requests = []
    for entry in bank.requests:
        held = bank.read(entry)
        keys = held.token_ids.long().cpu()
        windows = choose_windows(keys)
        states = {state: sketch(held.state(state), windows, rule.seed) for state in bank.manifest.states}
        slots = [sketch(channel.values, windows, rule.seed) for channel in held.served]
        served = tuple(replace(c, values=slot.values) for c, slot in zip(held.served, slots, strict=True))
        first = FirstValues({state: one.first for state, one in states.items()}, tuple(slot.first for slot in slots))
        rows = {state: one.values for state, one in states.items()}
        places = places_of(keys, windows)
        requests.append(MemoryRequest(_chosen(keys, windows), rows, served, places, first=first))
    return MemoryBank(bank.path, reduced_header(bank.manifest), requests, sketched=True)


def reduced_header(header: ManifestHeader) -> ManifestHeader:
    """The header of a capture whose rows are projected: 64 wide."""
    names = ManifestHeader.__dataclass_fields__
    return ManifestHeader(**{name: getattr(header, name) for name in names} | {"hidden_size": COLUMNS, "ranks": 1})
