"""The formula of every number in a draft run, in words: a number without its definition cannot be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsforensics.drafter.ranking import RULE

if TYPE_CHECKING:
    from hsforensics.drafter.evaluate import Feed
    from hsforensics.drafter.spec import DrafterSpec
    from hsforensics.drafter.weights import LoadedDrafter

METRICS = {
    "accuracy": "step k: rows t whose k-th proposal equals the target's argmax over its full vocabulary at row t + k, "
    "over all rows with t + k <= T - 1; a target token outside the draft vocabulary counts as wrong",
    "masked": "accuracy over the rows with loss_mask 1 at the label's position t + k (SpecForge's acc); absent without "
    "a loss mask",
    "draft_vocab": "as accuracy, but the target's argmax is taken over the draft vocabulary alone, on all rows",
    "full_acc": "speculators' full_acc: rows with loss_mask 1 at t + 1 and t + k where steps 1..k all equal the "
    "target's argmax over the draft vocabulary, over rows with loss_mask 1 at t + k; without a mask, all rows count",
    "cond_acc": "speculators' cond_acc: the rows counted by full_acc, over the rows with loss_mask 1 at t + 1 where "
    "steps 1..k-1 all equal the target's argmax over the draft vocabulary",
    "accept_length": "tokens emitted per verify step, bonus token included: emitted / verify_steps of greedy chain "
    "drafting with as many draft tokens as steps here, replayed on the stretches where each next token is the target's "
    "own argmax; the same for both kinds of feed",
    "on_policy": "rows t whose token t + 1 is the target's argmax at row t, over all rows t <= T - 2; where there is a "
    "loss mask, over those with loss_mask 1 at t + 1 alone (prompt rows do not count), and 0 if there is none",
    "interval": "95 %, percentile bootstrap over sequences of the ratio of sums; none with fewer than two sequences; "
    "sequences with the same token ids count once",
    "ranking": RULE,
}
"""Metric -> formula; the same in every run."""

FEEDS: dict[Feed, str] = {
    "text": "text: step k >= 2 embeds the text's token t + k (teacher forced)",
    "own": "own: step k >= 2 embeds the drafter's own proposal of step k - 1, as serving does",
}
"""What ``--feed`` means."""

_EMBEDDINGS = {
    "target": "the target's, as SGLang does",
    "drafter": "the drafter's own, since its width differs from the target's",
}


def definitions(loaded: LoadedDrafter, feed: Feed, labels: str, inputs: str) -> dict[str, str]:
    """Every definition of a run: the metrics', and the choices made for this drafter and this data.

    Args:
        loaded: The drafter.
        feed: Which token later steps embed.
        labels: Where the target's choices come from.
        inputs: Where the channels come from, and what that proves.
    """
    return {
        **METRICS,
        "feed": FEEDS[feed],
        "embedding": _EMBEDDINGS[loaded.embedding_source],
        "head": "the drafter's own" if loaded.head_source == "drafter" else "the target's: the drafter ships none",
        "structure": _structure(loaded.weights.spec),
        "labels": labels,
        "inputs": inputs,
    }


def _structure(spec: DrafterSpec) -> str:
    norms = [(spec.input_norm, "one norm over all channels"), (spec.fc_norm, "a norm for each channel")]
    before = " and ".join(text for there, text in norms if there) or "no norm"
    residual = "the normed feature (norm_before_residual)" if spec.norm_before_residual else "the raw feature"
    fed = "after the final norm (norm_output, as engines read it)" if spec.norm_output else "before the final norm"
    rope = spec.rope.scaling["rope_type"] if spec.rope.scaling else "plain"
    return (
        f"{spec.channels} channels, {before} before fc; residual is {residual}; the next step is fed the stream {fed}; "
        f"rope {rope}, theta {spec.rope.theta:g}; draft vocabulary {spec.draft_vocab_size}"
    )
