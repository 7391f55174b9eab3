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
        "Give more evidence: a bank, more tokens. hsforensics draft-eval only settles states that are far apart.",
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
        "counterparts-agree",
        "info",
        "Dump and served channels agree with each other by value, although no state of the bank fits them.",
        "Check that the bank comes from the same target, dtype and tokens as the two sides.",
    ),
    FindingKind(
        "state-repeated",
        "warning",
        "Two channels that feed fc hold one and the same state.",
        "Check the layer ids: duplicates collapse silently in most engines.",
    ),
    FindingKind(
        "channels-equal",
        "error",
        "Two channels of one sample are bit-equal.",
        "A buffer was reused: copy each state before the next layer runs.",
    ),
    FindingKind(
        "norm-applied",
        "error",
        "A channel holds a state after a norm, not the state itself.",
        "Capture before the norm, or train on what the engine serves.",
    ),
    FindingKind(
        "residual-missing",
        "error",
        "A channel holds what a layer, its MLP or its attention adds, without the residual stream.",
        "Capture hidden + residual; see whether this engine's model class returns them apart.",
    ),
    FindingKind(
        "partial-sum",
        "error",
        "A channel holds a whole stream up to some layer and only a part of the next addition.",
        "Capture after the all-reduce; give the other ranks' captures with --rank to confirm.",
    ),
    FindingKind(
        "scaled",
        "warning",
        "A channel is a state times a constant.",
        "Look for an embedding or residual multiplier that one side applies and the other does not.",
    ),
    FindingKind(
        "rotated",
        "error",
        "A channel is a state times an orthogonal matrix: norms and inner products agree, values do not.",
        "Undo the rotation of the quantised target for each block of fc, or serve the unrotated target.",
    ),
    FindingKind(
        "rows-lagged",
        "error",
        "The rows of a channel belong to earlier or later tokens.",
        "Check how the producer shifts states against token ids; drop or add the leading token on one side.",
    ),
    FindingKind(
        "rows-foreign",
        "error",
        "Rows of a channel belong to other tokens or to other requests.",
        "Check how a batch is split into requests, and dump again with one request at a time.",
    ),
    FindingKind(
        "rows-disagree",
        "error",
        "A channel holds its state in most rows, and something else in the others.",
        "Look at the rows named: image tokens, cached prefixes or late rows are filled elsewhere.",
    ),
    FindingKind(
        "rows-short",
        "error",
        "A channel has fewer or more rows than its sample has tokens, and values say which tokens they belong to.",
        "Dump again with prefix caching off, or cut the token ids to the rows that exist.",
    ),
    FindingKind(
        "split-width",
        "error",
        "The channels were cut out of a joined tensor at the wrong width or along the wrong axis.",
        "Split by the target's hidden size, state after state.",
    ),
    FindingKind(
        "buffer-alias",
        "warning",
        "A served state lies deeper than the id rule says although others are right: a reused buffer, or another rule.",
        "Run the engine eagerly, or clone the captured state, and capture again.",
    ),
    FindingKind(
        "numeric-drift",
        "warning",
        "States are in the right order, but differ from the bank by an error that grows with depth.",
        "That is numerics, not wiring: compare dtype, kernels and quantisation of the two sides.",
    ),
    FindingKind(
        "noise-floor",
        "warning",
        "Repeated captures differ as much as neighbouring states do, so values cannot tell these apart.",
        "Capture in a higher precision: hsforensics draft-eval does not tell neighbours apart either.",
    ),
    FindingKind(
        "set-mixed",
        "error",
        "Files of one dump set hold different states: they were made by different rules.",
        "Produce the smaller group again, or train on one group only.",
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
        "rows-duplicate",
        "error",
        "Rows of a sample repeat rows of other tokens of the same sample.",
        "Produce this dump again: rows were gathered with wrong indices.",
    ),
    FindingKind(
        "rows-stale",
        "error",
        "Rows of a sample are those of an earlier sample, although the tokens differ.",
        "Produce this dump again: a buffer or a cache of the previous request was read.",
    ),
    FindingKind(
        "values-overflow",
        "warning",
        "Values exceed what fp16 can hold.",
        "Keep these states in bf16 or fp32; casting to fp16 gives Inf.",
    ),
    FindingKind(
        "dtype-mixed",
        "warning",
        "Channels or samples of one dump set have different dtypes.",
        "Find out which program wrote which file; the coarsest dtype sets the noise.",
    ),
    FindingKind(
        "tokens-invalid",
        "error",
        "Token ids lie outside the target's vocabulary.",
        "Check that these dumps were tokenised for this target.",
    ),
    FindingKind(
        "mask-length",
        "error",
        "A loss mask has another length than its sample.",
        "Produce this sample again.",
    ),
    FindingKind(
        "mask-empty",
        "error",
        "A loss mask is zero throughout: the sample trains nothing.",
        "Check the chat template's markers for generated text.",
    ),
    FindingKind(
        "mask-full",
        "info",
        "Every loss mask is one throughout: prompts are trained on as well.",
        "If only answers should be trained on, check the chat template's markers.",
    ),
    FindingKind(
        "alignment-used",
        "info",
        "Not all samples have the same token ids on both sides; rows were aligned by their tokens.",
        "Capture the very token ids of the dumps to avoid it.",
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
    FindingKind(
        "sequences-repeated",
        "warning",
        "Sequences with the same token ids are copies of one another: each counts once.",
        "Use distinct sequences: copies add no evidence and make intervals look narrow.",
    ),
    FindingKind(
        "target-differs",
        "warning",
        "The target given is not, byte for byte or by value, the one that the capture was made with.",
        "Give the very target of the capture, or capture again with this one.",
    ),
    # -- live capture -------------------------------------------------------------------------------------------
    FindingKind(
        "served-off-bank",
        "error",
        "What the engine hands to the drafter is no state of its own bank: a fault of the engine, not of layer ids.",
        "Serve with another engine version; no ids can mend it.",
    ),
    FindingKind(
        "served-absent",
        "error",
        "The engine handed no aux states to the drafter.",
        "Check that the config has layer ids where this engine reads them: hsforensics fix-config does.",
    ),
    FindingKind(
        "fc-not-reached",
        "error",
        "The drafter's fc received nothing: the engine skipped it, since the states it had were as wide as one.",
        "Check how many states the config asks for, and use_aux_hidden_state.",
    ),
    FindingKind(
        "fc-input-differs",
        "error",
        "What the drafter's fc received is not the concatenation of the served states.",
        "Report engine and version: states are altered between target and drafter.",
    ),
    FindingKind(
        "bank-incomplete",
        "warning",
        "The hooks saw only some of the target's states, so channels may match none.",
        "Make the whole bank: hsforensics capture DUMPS --engine transformers --target MODEL -o CAPTURE",
    ),
    FindingKind(
        "request-unrecorded",
        "error",
        "The engine answered a request whose prefill no hook saw as one whole pass.",
        "Give no engine argument that caches prefixes, splits prefills or replays them as graphs.",
    ),
    FindingKind(
        "hook-complained",
        "warning",
        "A hook inside the engine left something out, to keep the engine running.",
        "Capture fewer or shorter samples, and report the message if it stays.",
    ),
    FindingKind(
        "accept-measured",
        "info",
        "The engine's own accept length on these prompts, bonus token included.",
        "Compare it with hsforensics draft-eval on the same text.",
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
        "rule-introspected",
        "warning",
        "The engine's own code follows another id rule than the tables say.",
        "Believe the code, and report engine, version and class so that the tables can be mended.",
    ),
    FindingKind(
        "ids-fail",
        "error",
        "By the id rule, this engine fails with these layer ids.",
        "Ask which ids would do: hsforensics rules --states, or let hsforensics fix-config write them.",
    ),
    FindingKind(
        "layout-unread",
        "warning",
        "The drafter's config has a layout that this engine cannot load.",
        "Convert the drafter, or serve it with an engine that loads it.",
    ),
    FindingKind(
        "flag-ignored",
        "error",
        "The drafter needs a norm that this engine version leaves out, which changes every draft.",
        "Serve with a version that honours it, or train without it.",
    ),
    FindingKind(
        "contract-broken",
        "error",
        "The drafter, its target or a capture is not what the drafter's contract promises.",
        "Find out which side changed; write the contract anew only after training anew.",
    ),
    FindingKind(
        "contract-target-config",
        "warning",
        "The target's config changed since training, though its class and sizes did not.",
        "Compare the two configs: rope, norms and vocabulary matter, names do not.",
    ),
    FindingKind(
        "keys-conflict",
        "warning",
        "Several keys of the config hold layer ids, and engines read different ones.",
        "Write each in its engine's own convention: hsforensics fix-config with one --engine for each.",
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
        "The others are miswired. Whether it is the trained wiring to the last state, only values say: compare.",
    ),
    FindingKind(
        "draft-undecided",
        "warning",
        "No wiring is clearly better than all others: too few sequences, too small a lead, or neighbouring states.",
        "Evaluate more sequences; neighbouring states are told apart by values: hsforensics compare.",
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
