"""What lying labels have in common: the pattern names the bug in the program that wrote them."""

from __future__ import annotations

from collections.abc import Sequence

from hsforensics.findings import finding
from hsforensics.matching.records import ChannelFacts
from hsforensics.states import Finding, show_wiring


def label_pattern(dump: Sequence[ChannelFacts]) -> Finding | None:
    """One finding about all labels together, when at least two lie in the same way; else ``None``.

    Two patterns are known: every number is off by the same amount (an index taken for another kind of index), and every
    label is what the channel before holds (somebody put a state in front that was never dumped, as in the incident).
    """
    claims = [item.claim for item in dump]
    holds = [item.match.known for item in dump]
    pairs = [(c, h) for c, h in zip(claims, holds, strict=True) if isinstance(c, int) and isinstance(h, int)]
    wrong = sum(claim is not None and known not in (None, claim) for claim, known in zip(claims, holds, strict=True))
    if wrong < 2:
        return None
    shifts = {claim - known for claim, known in pairs}
    evidence = f"claimed {show_wiring(tuple(claims))}, held {show_wiring(tuple(holds))}"
    counted = f"{wrong} of {len(dump)} labels are wrong"
    if claims[1:] == holds[:-1]:
        message = f"{counted}, and each is what the channel before it holds: the labels are one place off"
        remedy = "Look for a label, such as the embedding's, in front of the list that was never dumped."
    elif len(shifts) == 1 and len(pairs) >= 2 and shifts != {0}:
        (shift,) = shifts
        message = f"{counted}, and every number is {abs(shift)} too {'high' if shift > 0 else 'low'}"
        remedy = "Look for an index of another kind where the dump was written: state i is the output of layer i - 1."
    else:
        return None
    return finding("labels-shifted", "labels", message, evidence, remedy=remedy)
