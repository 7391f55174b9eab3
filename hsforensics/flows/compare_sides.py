"""Findings about the two sides of a comparison as wholes: order, direct agreement, and what forbids a green."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hsforensics.findings import finding
from hsforensics.flows.bank import Bank
from hsforensics.flows.bank_check import missing_states
from hsforensics.flows.channel_log import Evidence
from hsforensics.flows.pairing import Pair
from hsforensics.matching.agreement import DISAGREE_SHARE
from hsforensics.matching.counterparts import EQUAL, Counterparts, counterparts
from hsforensics.matching.groups import some
from hsforensics.matching.verdict import Judgement
from hsforensics.results import Prediction
from hsforensics.states import Finding, Wiring, state_order

if TYPE_CHECKING:
    from torch import Tensor

NOT_ALIGNED = (
    *("rows-disagree", "rows-foreign", "set-mixed", "rows-stale", "rows-constant", "rows-duplicate", "ranks-disagree"),
)
"""With one of these as an error, equal wirings are not enough for ``aligned``: some rows hold something else."""


def forbids_aligned(judgement: Judgement, notes: Sequence[Finding]) -> Judgement:
    """``aligned`` becomes ``undecided`` when some rows hold something else than the wiring says."""
    broken = sorted({note.code for note in notes if note.code in NOT_ALIGNED and note.severity == "error"})
    if judgement.verdict != "aligned" or not broken:
        return judgement
    kept = tuple(note for note in judgement.findings if note.code != "wiring-right")
    return replace(judgement, verdict="undecided", findings=kept)


def counterpart_findings(
    pairs: Sequence[Pair],
    trained: Sequence[Evidence],
    served: Sequence[Evidence],
    known: tuple[Wiring | None, Wiring | None],
    bank: Bank,
) -> list[Finding]:
    """What a direct comparison of dump and served channels adds where states are not known.

    Args:
        pairs: Samples with their requests.
        trained: Evidence of the dump's aux channels.
        served: Evidence of the served ones.
        known: Trained and served wiring.
        bank: Holds the requests.
    """
    if len(trained) != len(served) or _whole(known):
        return []
    fitting = _fitting(pairs, trained, bank)
    found = counterparts(_both_sides(fitting, trained, bank)) if fitting else None
    if found is not None and missing_states(bank.manifest) and max(found.distances, default=1.0) > EQUAL:
        return []  # neighbours are as near as this, and the bank does not say that these are none
    if found is None or not found.sure:
        return []
    if found.straight:
        return [_agreeing(found, [(pair.sample.name, pair.rows) for pair in fitting])]
    evidence = f"largest distance of a pair {max(found.distances):.3g}, assignment {list(found.order)}"
    order = ", ".join(str(slot) for slot in found.order)
    message = f"the engine feeds the trained states in another order: trained slots are served in slots {order}"
    return [finding("channel-order", "served", message, evidence)]


def _agreeing(found: Counterparts, samples: Sequence[tuple[str, int]]) -> Finding:
    """In how many rows and samples the two sides agree, slot by slot; a warning where not in all samples."""
    farthest = max(found.distances)
    how, shares = ("equals", found.equal) if farthest <= EQUAL else ("is nearest to", found.near)
    agreeing = sum(share * rows for share, (_, rows) in zip(shares, samples, strict=True))
    share = agreeing / max(1, sum(rows for _, rows in samples))
    apart = [name for (name, _), part in zip(samples, shares, strict=True) if 1.0 - part > DISAGREE_SHARE]
    message = f"every served channel {how} the trained channel of its slot"
    counted = f"{len(samples) - len(apart)} of {len(samples)} samples"
    evidence = f"in {share:.1%} of the rows, in {counted}; median distance of the farthest pair {farthest:.3g}"
    if not apart:
        return finding("counterparts-agree", "served", message, evidence)
    message += f" in {counted} only, not in {some(apart)}"
    return finding("counterparts-agree", "served", message, evidence, severity="warning")


def _whole(known: tuple[Wiring | None, Wiring | None]) -> bool:
    return all(side is not None and None not in side for side in known)


def _fitting(pairs: Sequence[Pair], trained: Sequence[Evidence], bank: Bank) -> list[Pair]:
    """The samples whose channels have the shape that they should have."""
    width = bank.manifest.hidden_size
    return [
        pair
        for pair in pairs
        if all(pair.sample.channels[item.index].values.shape == (len(pair.sample.token_ids), width) for item in trained)
    ]


def _both_sides(
    pairs: Sequence[Pair], trained: Sequence[Evidence], bank: Bank
) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    for pair in pairs:
        ours = [pair.ours(pair.sample.channels[item.index].values) for item in trained]
        yield ours, [pair.theirs(channel.values) for channel in bank.read(pair.request).served]


def served_deeper(predicted: Prediction | None, served: Wiring | None) -> list[Finding]:
    """Some slots as the rule says and others deeper: a buffer that later layers write into, or another rule."""
    if predicted is None or predicted.states is None or served is None or len(predicted.states) != len(served):
        return []
    slots = list(zip(predicted.states, served, strict=True))
    deeper = [
        (slot, said, got)
        for slot, (said, got) in enumerate(slots)
        if said is not None and got is not None and state_order(got) > state_order(said)
    ]
    if not deeper or len(deeper) == len(slots) or not any(said == got for said, got in slots):
        return []
    shown = ", ".join(f"slot {slot}: state {got} instead of {said}" for slot, said, got in deeper)
    return [finding("buffer-alias", "served", f"some slots hold deeper states than the rule says ({shown})", shown)]
