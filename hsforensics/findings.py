"""The catalogue of findings: every stable code, its usual severity, what it means, and what to do.

``hsforensics findings`` prints this table; ``docs/findings.md`` is generated from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hsforensics.states import Finding, Severity


@dataclass(frozen=True)
class FindingKind:
    """One kind of finding: its code, usual severity, meaning, and usual remedy."""

    code: str
    severity: Severity
    meaning: str
    remedy: str


_KINDS = (
    # -- wiring -------------------------------------------------------------------------------------------------
    FindingKind(
        "wiring-right",
        "info",
        "The engine serves exactly the states that the drafter was trained on.",
        "Wiring is not the fault: look at data amount, vocabulary map, norms, rope and sampling instead.",
    ),
    FindingKind(
        "offset-uniform",
        "error",
        "Every served state lies the same number of layers from the trained one.",
        "hsforensics fix-config DRAFTER --report REPORT --engine ENGINE==VERSION",
    ),
    FindingKind(
        "offset-mixed",
        "error",
        "Served and trained states differ, and not by one common number of layers.",
        "hsforensics fix-config DRAFTER --report REPORT --engine ENGINE==VERSION",
    ),
    FindingKind(
        "channel-order",
        "error",
        "The right states are served in another order than the one trained.",
        "Engines join states in ascending order: retrain, or permute the column blocks of fc.weight.",
    ),
    FindingKind(
        "channel-count",
        "error",
        "The number of channels does not fit the drafter's fc.",
        "Check which channels the trainer joined, and what the engine captures.",
    ),
    FindingKind(
        "served-unknown",
        "info",
        "No served states were measured, so the verdict stays undecided.",
        "Capture a live engine that serves the drafter, and compare again.",
    ),
    FindingKind(
        "config-serves-other",
        "error",
        "By the id rule, this config makes the engine serve other states than the trained ones.",
        "hsforensics fix-config DRAFTER --report REPORT --engine ENGINE==VERSION",
    ),
    FindingKind(
        "config-serves-trained",
        "info",
        "By the id rule, this config makes the engine serve the trained states.",
        "Capture a live engine to turn the prediction into a measurement.",
    ),
    # -- channels -----------------------------------------------------------------------------------------------
    FindingKind(
        "channel-mislabelled",
        "error",
        "A channel does not hold the state that its label claims.",
        "Believe the values: use the state that compare names, not the label.",
    ),
    FindingKind(
        "channel-ambiguous",
        "warning",
        "The evidence cannot tell several states apart for this channel.",
        "Give more evidence (a bank, more tokens), or decide with hsforensics draft-eval.",
    ),
    FindingKind(
        "bank-needed",
        "info",
        "Without a bank, values prove only what is, or is not, the embedding or postnorm.",
        "Make one: hsforensics capture DUMPS --engine transformers --target MODEL -o CAPTURE",
    ),
    FindingKind(
        "channel-unidentified",
        "error",
        "A channel is close to no state of the target.",
        "Check that dump and capture come from the same target and the same tokens.",
    ),
    FindingKind(
        "channel-unreadable",
        "error",
        "A channel cannot be judged: NaN or Inf, or rows that do not fit the tokens or the width.",
        "Produce this dump again, and keep it out of training until then.",
    ),
    FindingKind(
        "target-not-final",
        "error",
        "The channel that the trainer takes as distillation target is not the last state.",
        "Check the trainer's slicing: the last item of the list becomes the target.",
    ),
    FindingKind(
        "target-prenorm",
        "info",
        "The distillation target holds state L, before the final norm.",
        "The trainer must apply the final norm before lm_head.",
    ),
    FindingKind(
        "target-postnorm",
        "info",
        "The distillation target holds postnorm, after the final norm.",
        "The trainer must apply lm_head directly, without another norm.",
    ),
    FindingKind(
        "target-absent",
        "warning",
        "The dump holds no distillation target, only aux channels.",
        "A trainer that strips the last item would lose a real aux channel here.",
    ),
    # -- data ---------------------------------------------------------------------------------------------------
    FindingKind(
        "rows-constant",
        "error",
        "Rows of a channel are all zero, or one constant row repeated.",
        "Produce this dump again: training on such rows converges and serves at zero.",
    ),
    FindingKind(
        "file-unreadable",
        "error",
        "A file of the dump could not be read; the others were.",
        "Copy or produce the file again.",
    ),
    FindingKind(
        "tokens-unmatched",
        "warning",
        "Samples of the dump have no request with the same tokens in the capture.",
        "Capture these very dumps: hsforensics capture DUMPS --engine transformers --target MODEL -o CAPTURE",
    ),
    FindingKind(
        "few-sequences",
        "warning",
        "Too few sequences for an interval, since tokens of one sequence correlate.",
        "Use at least two sequences, better ten.",
    ),
    # -- config and rules ---------------------------------------------------------------------------------------
    FindingKind(
        "predicted-not-measured",
        "info",
        "What the edited config will serve follows from a rule; nobody has measured it yet.",
        "Capture the restarted engine and compare again.",
    ),
    FindingKind(
        "ids-absent",
        "error",
        "The engine finds no layer ids in this config and silently uses its default layers.",
        "Write the ids where this engine reads them: hsforensics fix-config does.",
    ),
    FindingKind(
        "rule-disagrees",
        "warning",
        "The engine served other states than the id rule predicts for its version and class.",
        "Believe the measurement, and report engine, version and class so that the rule can be mended.",
    ),
    FindingKind(
        "rule-caveat",
        "warning",
        "This engine version is known to treat layer ids in an unexpected way.",
        "Read the note, and measure with a live capture.",
    ),
    FindingKind(
        "rule-unknown",
        "warning",
        "No id rule is known for this engine, version and class, so nothing is predicted.",
        "Measure with a live capture.",
    ),
    # -- drafter ------------------------------------------------------------------------------------------------
    FindingKind(
        "draft-best",
        "info",
        "One wiring gives the drafter a clearly higher accuracy than the others.",
        "Take it as the trained wiring if the values agree.",
    ),
    FindingKind(
        "draft-undecided",
        "warning",
        "Two wirings give accuracies whose difference is within its interval.",
        "Evaluate more sequences.",
    ),
    FindingKind(
        "data-off-policy",
        "warning",
        "The target did not write this text, so the accept length rests on easy stretches.",
        "For a prediction of serving, evaluate on the target's own greedy continuations.",
    ),
    FindingKind(
        "draft-embedding-own",
        "warning",
        "The drafter ships its own token embedding, which differs from the target's.",
        "SGLang replaces it with the target's; other engines may use it.",
    ),
)

CATALOGUE: dict[str, FindingKind] = {kind.code: kind for kind in _KINDS}
"""Every finding that this version can report, by code, in documentation order."""


def finding(
    code: str,
    where: str,
    message: str,
    evidence: str,
    *,
    remedy: str | None = None,
    severity: Severity | None = None,
    confidence: Literal["measured", "predicted", "claimed"] = "measured",
) -> Finding:
    """Build a finding of a catalogued kind; severity and remedy default to the kind's own."""
    kind = CATALOGUE[code]
    return Finding(code, severity or kind.severity, where, message, evidence, remedy or kind.remedy, confidence)
