"""Kinds of findings about values: what channels hold, and what is wrong with rows, tokens and masks."""

from __future__ import annotations

from dataclasses import dataclass

from hsforensics.states import Severity


@dataclass(frozen=True)
class FindingKind:
    """One kind of finding: its code, usual severity, meaning, usual remedy, and what to type for it."""

    code: str
    severity: Severity
    meaning: str
    remedy: str
    commands: tuple[str, ...] = ()


MAKE_BANK = ("hsforensics capture DUMPS --target MODEL --out BANK", "hsforensics compare DUMPS BANK --draft DRAFTER")
"""Templates of commands; see ``hsforensics.findings.PLACEHOLDERS``. Record what the dumps hold,"""

MEASURE = (
    "hsforensics capture DUMPS --engine sglang --target MODEL --draft DRAFTER --out LIVE",
    "hsforensics compare DUMPS LIVE --draft DRAFTER",
)
"""record what a live engine serves (SGLang only),"""

REPAIR = (
    "hsforensics compare DUMPS CAPTURE --draft DRAFTER --json > report.json",
    "hsforensics fix-config DRAFTER --report report.json --engine ENGINE==VERSION",
)
"""make the config ask for the trained states,"""

REWRITE = "hsforensics fix-config DRAFTER --wiring STATES --engine ENGINE==VERSION --architecture CLASS --layers LAYERS"
"""the same where they are promised or named by hand,"""

ASK_IDS = "hsforensics rules --engine ENGINE==VERSION --architecture CLASS --layers LAYERS --states STATES"
"""or ask which ids serve states."""


CHANNEL_KINDS = (
    FindingKind(
        "channel-mislabelled",
        "error",
        "A channel does not hold the state that its label claims.",
        "Believe the values: use the state that compare names, not the label.",
    ),
    FindingKind(
        "labels-shifted",
        "info",
        "Several labels lie in the same way, which names the bug in the program that wrote them.",
        "Mend the program that wrote the labels; the states are in the table.",
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
        "Without a bank, values tell only what is, or is not, the embedding or postnorm.",
        "Make one, and compare again.",
        MAKE_BANK,
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
        "A channel holds the stream up to some layer and only a part of the next addition, or a sum of ranks that "
        "counts the stream once for each.",
        "Serve without fused all-reduce (SGLang: --enforce-disable-flashinfer-allreduce-fusion), or use a version that "
        "reduces before it hands states on; capture --every-rank confirms it.",
    ),
    FindingKind(
        "ranks-disagree",
        "error",
        "Tensor-parallel ranks feed their drafters different values where all should hold one state.",
        "Compare this capture: with capture --every-rank, the ranks' sum tells which state was not reduced.",
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
        "target-unchecked",
        "warning",
        "Values cannot confirm that a dump's target channel is the last state: it does not reproduce the text.",
        "Compare the dump with a bank, which names the state of every channel, or use text that the target wrote.",
    ),
    FindingKind(
        "roles-inferred",
        "info",
        "All channels were taken for aux: as many states were served, or the last channel is not the last state.",
        "Give --draft: the width of its fc settles which channels are aux.",
    ),
    FindingKind(
        "target-absent",
        "warning",
        "The dump holds no distillation target, only aux channels.",
        "A trainer that strips the last item would lose a real aux channel here.",
    ),
)
"""What a channel, or a side of a comparison, was found to hold."""

DATA_KINDS = (
    FindingKind(
        "rows-constant",
        "error",
        "Rows of a channel are all zero, or one constant row repeated.",
        "Produce this dump again: training on such rows converges and serves at zero.",
    ),
    FindingKind(
        "rows-padding",
        "info",
        "The last rows of samples are padding: zero in every channel, and of no text.",
        "Leave them out of the loss, or cut them off, so that no trainer learns from them.",
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
        "Capture these very dumps.",
        MAKE_BANK,
    ),
    FindingKind(
        "bank-nonfinite",
        "error",
        "States of the capture itself hold NaN or Inf: the capture is at fault, not the dump.",
        "Produce the capture again, in a dtype that holds these values.",
    ),
    FindingKind(
        "requests-unused",
        "info",
        "Requests of the capture belong to no sample that was compared.",
        "Compare all dumps that were captured, or capture only what is compared.",
    ),
    FindingKind(
        "samples-left-out",
        "info",
        "Only the first samples of the dump were read.",
        "Raise --max-samples to read more.",
    ),
    FindingKind(
        "few-sequences",
        "warning",
        "Too few sequences for an interval that means much, since tokens of one sequence correlate.",
        "Use ten distinct sequences or more; fewer than two give no interval at all.",
    ),
    FindingKind(
        "sequences-repeated",
        "warning",
        "Samples hold the tokens of earlier ones, or rows of the same request: each sequence counts once.",
        "Use distinct sequences: copies add no evidence and make intervals look narrow.",
    ),
    FindingKind(
        "target-differs",
        "warning",
        "The target given is not, byte for byte or by value, the one that the capture was made with.",
        "Give the very target of the capture, or capture again with this one.",
    ),
)
"""What is wrong with files, rows, tokens and masks."""
