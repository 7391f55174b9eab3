"""Tokens that were compared before: a sequence counts once, and a file that holds other values is still judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from hsforensics.capture.manifest import token_ids_sha256
from hsforensics.findings import finding
from hsforensics.flows.pairing import Pair
from hsforensics.matching.distance import relative_distance
from hsforensics.matching.floats import computable
from hsforensics.states import Finding, Sample, Severity

if TYPE_CHECKING:
    from torch import Tensor

ROUNDING = 0.02
"""Two files of the same rows that lie within this relative distance differ by rounding."""

Stretches: TypeAlias = tuple[tuple[int, int], ...]
"""(first row, rows) of each stretch of a sequence."""

_MORE = (
    "Capture more tokens of each sample (a larger --max-tokens, or none): these share their first tokens only, and all "
    "that tells them apart was left out."
)


@dataclass(frozen=True)
class Item:
    """What is compared: some rows of a sequence, and what a file holds for them.

    Attributes:
        name: For messages.
        sequence: Hash of the sequence's token ids.
        rows: Which rows of it.
        values: [rows, H] of each channel, as stored; rows may lack where the channel is broken.
        text: Hash of all token ids of the file, compared or not.
        whole: Whether these are all rows of the file.
    """

    name: str
    sequence: str
    rows: Stretches
    values: tuple[Tensor, ...]
    text: str = ""
    whole: bool = True

    @cached_property
    def places(self) -> dict[int, int]:
        """Row of the sequence -> row of the values."""
        rows = (row for start, count in self.rows for row in range(start, start + count))
        return {row: place for place, row in enumerate(rows)}


@dataclass(frozen=True)
class Repeats:
    """For each item, the number of the first one that has the same, which is its own number where there is none.

    Attributes:
        items: What is compared, in order.
        sequence: First item of the same sequence.
        window: First item with the same rows of it.
        original: First item with the same rows and the same bits in every channel: all others are copies.
        unit: First item of the same sequence whose values agree where both hold a row; what a bootstrap draws.
    """

    items: tuple[Item, ...]
    sequence: tuple[int, ...]
    window: tuple[int, ...]
    original: tuple[int, ...]
    unit: tuple[int, ...]

    def counts(self, number: int, *, served: bool) -> bool:
        """Whether an item's rows are judged: of a dump unless it is a copy, of a request once for all files."""
        return (self.window if served else self.original)[number] == number

    def drawn_as(self, number: int, *, served: bool) -> int:
        """The unit of a bootstrap that an item's rows belong to; a request is one, whatever the files say of it."""
        return (self.sequence if served else self.unit)[number]

    @property
    def sequences(self) -> int:
        """Distinct sequences."""
        return len(set(self.sequence))

    @property
    def tokens(self) -> int:
        """Distinct rows of all sequences together."""
        rows: dict[int, set[int]] = defaultdict(set)
        for home, item in zip(self.sequence, self.items, strict=True):
            rows[home].update(item.places)
        return sum(map(len, rows.values()))


def pair_items(pairs: Sequence[Pair]) -> list[Item]:
    """With a capture, a sequence is a request of it."""
    return [
        Item(
            pair.sample.name,
            pair.request.token_ids_sha256,
            tuple((start, count) for _, start, count in pair.alignment.spans),
            tuple(pair.ours(channel.values) for channel in pair.sample.channels),
            token_ids_sha256(pair.sample.token_ids),
            pair.rows == len(pair.sample.token_ids),
        )
        for pair in pairs
    ]


def sample_items(samples: Sequence[Sample]) -> list[Item]:
    """Without one, it is a sample's token ids."""
    return [
        Item(
            sample.name,
            token_ids_sha256(sample.token_ids),
            ((0, len(sample.token_ids)),),
            tuple(channel.values for channel in sample.channels),
            token_ids_sha256(sample.token_ids),
        )
        for sample in samples
    ]


def find_repeats(items: Sequence[Item]) -> Repeats:
    """Which items repeat earlier ones. Values are only read where a sequence returns."""
    homes: dict[str, list[int]] = defaultdict(list)
    firsts: list[tuple[int, int, int, int]] = []  # sequence, window, original, unit
    for number, item in enumerate(items):
        earlier = homes[item.sequence]
        same = [other for other in earlier if items[other].rows == item.rows]
        original = next((other for other in same if _same_bits(items[other], item)), number)
        heads = dict.fromkeys(firsts[other][3] for other in earlier)
        agreeing = (head for head in heads if original == number and distance_apart(items[head], item) <= ROUNDING)
        unit = firsts[original][3] if original != number else next(agreeing, number)
        firsts.append(((earlier or [number])[0], (same or [number])[0], original, unit))
        earlier.append(number)
    sequence, window, originals, unit_of = zip(*firsts, strict=True) if firsts else ((), (), (), ())
    return Repeats(tuple(items), sequence, window, originals, unit_of)


def _same_bits(one: Item, other: Item) -> bool:
    """NaN equals NaN here, and no dtype another one."""
    import torch

    return all(
        a.dtype == b.dtype and a.shape == b.shape and torch.equal(_bytes(a), _bytes(b))
        for a, b in zip(one.values, other.values, strict=True)
    )


def _bytes(values: Tensor) -> Tensor:
    import torch

    return values.contiguous().view(torch.uint8)


def distance_apart(one: Item, other: Item) -> float:
    """Worst median relative distance of a channel in the rows of both: 0 if there is none, infinite if not a number."""
    shared = _shared_rows(one, other)
    ours, theirs = [one.places[row] for row in shared], [other.places[row] for row in shared]
    worst = 0.0
    for a, b in zip(one.values, other.values, strict=True):
        if not shared:
            continue
        if max(ours) >= len(a) or max(theirs) >= len(b) or a.shape[1:] != b.shape[1:]:
            return float("inf")
        distances = relative_distance(computable(b)[theirs], computable(a)[ours])
        worst = max(worst, float(distances.nan_to_num(nan=float("inf")).median()))
    return worst


def _shared_rows(one: Item, other: Item) -> list[int]:
    return [row for row in other.places if row in one.places]


def repeat_findings(repeats: Repeats) -> list[Finding]:
    """What was counted once, in numbers: copies, and files that hold other values, or other rows, of a sequence."""
    numbers = range(len(repeats.items))
    copies = [n for n in numbers if repeats.original[n] != n]
    others = [n for n in numbers if repeats.original[n] == n and repeats.sequence[n] != n]
    cut = [n for n in copies if _goes_on(repeats, n, repeats.original[n])]
    whole = [n for n in copies if n not in cut]
    return [*_copies(repeats, whole), *_copies(repeats, cut), *_others(repeats, others)]


def _goes_on(repeats: Repeats, number: int, first: int) -> bool:
    """Whether two files with the same compared rows are different texts, of which the rest was not compared."""
    item, other = repeats.items[number], repeats.items[first]
    return item.text != other.text and not (item.whole and other.whole)


def _copies(repeats: Repeats, numbers: Sequence[int]) -> Iterator[Finding]:
    """Copies as far as they were compared: only whole files are called so."""
    if not numbers:
        return
    item, source = repeats.items[numbers[0]], repeats.items[repeats.original[numbers[0]]]
    message = f"{_of_all(repeats, numbers)} repeat rows of an earlier one bit for bit; {_left(repeats)} count"
    proof = f"{item.name} is a copy of {source.name}"
    if not item.whole:
        proof = f"{item.name} equals {source.name} in all {len(item.places)} rows that were compared"
    remedy = _MORE if _goes_on(repeats, numbers[0], repeats.original[numbers[0]]) else None
    yield finding("sequences-repeated", item.name, message, proof, severity="info", remedy=remedy)


def _others(repeats: Repeats, numbers: Sequence[int]) -> Iterator[Finding]:
    """All of them are judged; values that disagree are worth a warning, since one of the files must be wrong."""
    if not numbers:
        return
    apart = [distance_apart(repeats.items[repeats.sequence[n]], repeats.items[n]) for n in numbers]
    distance, worst = max(zip(apart, numbers, strict=True))
    item, first = repeats.items[worst], repeats.items[repeats.sequence[worst]]
    message = (
        f"{_of_all(repeats, numbers)} hold other rows, or other values, of an earlier one's sequence: "
        f"all are judged, and the sequence counts once; {_left(repeats)} count"
    )
    severity: Severity = "info" if distance <= ROUNDING else "warning"
    rows = len(_shared_rows(first, item))
    apart_by = (
        f"is {distance:.3g} from {first.name} in {rows} rows of both" if rows else f"shares no row with {first.name}"
    )
    remedy = _MORE if _goes_on(repeats, worst, repeats.sequence[worst]) else None
    yield finding("sequences-repeated", item.name, message, f"{item.name} {apart_by}", severity=severity, remedy=remedy)


def _of_all(repeats: Repeats, numbers: Sequence[int]) -> str:
    return f"{len(numbers)} of {len(repeats.items)} samples"


def _left(repeats: Repeats) -> str:
    count, tokens = repeats.sequences, repeats.tokens
    return f"{count} sequence{'s'[: count != 1]} and {tokens} token{'s'[: tokens != 1]}"
