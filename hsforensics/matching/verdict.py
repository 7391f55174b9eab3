"""From two wirings to a verdict: aligned, misaligned or undecided, and the offset of every slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from hsforensics.findings import finding
from hsforensics.results import Verdict
from hsforensics.states import Finding, State, Wiring, show_wiring


@dataclass(frozen=True)
class Judgement:
    """Verdict, offsets (served minus trained; ``None`` where unknown), whether uniform, and the findings behind it."""

    verdict: Verdict
    offsets: tuple[int | None, ...] | None
    offset_uniform: bool | None
    findings: tuple[Finding, ...]


def judge(
    trained: Wiring | None,
    served: Wiring | None,
    slots: tuple[int, int | None],
    differ: Sequence[int] = (),
    excluded: Sequence[Finding] = (),
) -> Judgement:
    """Compare the trained wiring with the served one.

    Args:
        trained: States of the dump's aux channels, ``None`` where unknown.
        served: States that the engine fed, likewise; ``None`` when none is known.
        slots: How many aux channels the dump has, and how many states the engine fed (``None``: not measured).
        differ: Slots whose sides certainly differ although a state is unknown, since a transform explains one of them.
        excluded: Findings about slots whose one side certainly is not the other's state; used when nothing else tells.
    """
    if slots[1] is None:
        note = finding("served-unknown", "served", "no served states were measured", "no live capture was given")
        return Judgement("undecided", None, None, (note,))
    if slots[0] != slots[1]:
        message = (
            f"the drafter was trained on {slots[0]} states, the engine feeds {slots[1]}{_lacking(trained, served)}"
        )
        evidence = f"trained {show_wiring(trained)}, served {show_wiring(served)}"
        return Judgement("misaligned", None, None, (finding("channel-count", "served", message, evidence),))
    pairs = tuple(zip_longest(trained or (None,) * slots[0], served or (None,) * slots[1]))
    offsets = tuple(_offset(ours, theirs) for ours, theirs in pairs)
    uniform = None not in offsets and len(set(offsets)) == 1 if any(o is not None for o in offsets) else None
    unlike = [ours is not None and theirs is not None and ours != theirs for ours, theirs in pairs]
    if any(unlike):
        return Judgement("misaligned", offsets, uniform, (_difference(pairs, offsets, uniform),))
    if differ or excluded:
        return Judgement("misaligned", offsets, uniform, () if differ else tuple(excluded))
    if any(ours is None or theirs is None for ours, theirs in pairs):
        return Judgement("undecided", offsets, uniform, ())
    right = finding(
        "wiring-right", "served", "wiring is right: the engine serves the trained states", show_wiring(served)
    )
    return Judgement("aligned", offsets, uniform, (right,))


def _lacking(trained: Wiring | None, served: Wiring | None) -> str:
    """Which trained states are not served, where that is known."""
    if trained is None or served is None or None in served:
        return ""
    missing = [state for state in trained if state is not None and state not in served]
    if not missing:
        return ""
    only = f": only the first {len(served)}" if served == trained[: len(served)] else ""
    return f"{only}; {show_wiring(tuple(missing))} {'is' if len(missing) == 1 else 'are'} missing"


def _offset(ours: State | None, theirs: State | None) -> int | None:
    return theirs - ours if isinstance(ours, int) and isinstance(theirs, int) else None


def _difference(
    pairs: Sequence[tuple[State | None, State | None]], offsets: Sequence[int | None], uniform: bool | None
) -> Finding:
    trained, served = (tuple(side) for side in zip(*pairs, strict=True))
    evidence = f"trained {show_wiring(trained)}, served {show_wiring(served)}"
    share = sum(None not in pair and pair[0] != pair[1] for pair in pairs) / len(pairs)  # slots that it is about
    if None not in (*trained, *served) and sorted(map(str, trained)) == sorted(map(str, served)):
        return finding(
            "channel-order", "served", "the engine feeds the trained states in another order", evidence, share=share
        )
    if uniform:
        step = offsets[0] or 0
        way = "deeper" if step > 0 else "shallower"
        message = f"every served state lies {abs(step)} layer{'s'[: abs(step) != 1]} {way} than the trained one"
        return finding("offset-uniform", "served", message, evidence, share=share)
    shown = ", ".join("?" if offset is None else f"{offset:+d}" for offset in offsets)
    message = f"served and trained states differ by [{shown}]"
    return finding("offset-mixed", "served", message, evidence, share=share)
