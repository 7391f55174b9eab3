"""What ``draft-eval`` has to say about its data and its drafter, beside the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hsforensics.drafter.evaluate import SequenceScore
from hsforensics.drafter.weights import LoadedDrafter
from hsforensics.findings import finding
from hsforensics.results import DraftRun
from hsforensics.states import Finding, show_wiring

ON_POLICY_ENOUGH = 0.9
"""Below this share of tokens that the target itself would choose, an accept length rests on easy stretches."""

ENOUGH_SEQUENCES = 10
"""With fewer, an interval over sequences is rough; with fewer than two there is none."""


def embedding_findings(loaded: LoadedDrafter, drafter: Path) -> list[Finding]:
    """A token embedding of the drafter's own that was not used."""
    if not loaded.embedding_differs:
        return []
    share = f"{loaded.embedding_differs:.1%} of the token rows differ"
    message = "the drafter ships a token embedding of its own; the target's was used, as SGLang does"
    return [finding("draft-embedding-own", f"{drafter}, embed_tokens.weight", message, share)]


def target_findings(labels: Mapping[tuple[str, bool], int], proof: str) -> list[Finding]:
    """What the target channel of the dumps holds, from ``(channel, before the norm?) -> sequences``.

    ``proof``: How well a channel before the norm reproduces the text.
    """
    return [_target_finding(name, count, proof if prenorm else None) for (name, prenorm), count in labels.items()]


def run_findings(runs: Sequence[DraftRun], scores: Sequence[Sequence[SequenceScore]]) -> list[Finding]:
    """Rows that could not be evaluated, run by run."""
    found = []
    for run, pile in zip(runs, scores, strict=True):
        if broken := sum(score.broken for score in pile):
            message = (
                f"rows of {show_wiring(run.wiring)} count as wrong: a state is NaN or Inf there or in an earlier row"
            )
            proof = f"{broken} of {plural(run.tokens, 'row')}"
            found.append(finding("channel-unreadable", show_wiring(run.wiring), message, proof))
    return found


def data_findings(run: DraftRun, policy_rows: int) -> list[Finding]:
    """Whose text it is, and how many sequences there are.

    Args:
        run: Any of the runs; they share the sequences.
        policy_rows: Rows that ``on_policy`` is a share of; with none, nobody can say whose text it is.
    """
    found, policy = [], run.accept_length
    if policy_rows and policy.on_policy < ON_POLICY_ENOUGH:
        message = "much of this text is not what the target would write, so the accept length rests on easy stretches"
        steps = plural(policy.verify_steps, "verify step")
        proof = f"{policy.on_policy:.1%} of {plural(policy_rows, 'token')} are the target's own choice, {steps}"
        found.append(finding("data-off-policy", "the data", message, proof))
    if run.sequences < ENOUGH_SEQUENCES:
        message = "intervals over so few sequences are rough" if run.sequences > 1 else "one sequence gives no interval"
        found.append(finding("few-sequences", "the data", message, plural(run.sequences, "sequence")))
    return found


def plural(count: int, noun: str) -> str:
    """``1 sequence``, ``2 sequences``."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _target_finding(name: str, count: int, proof: str | None) -> Finding:
    """``proof`` is ``None`` for postnorm, which its values alone show."""
    sequences = plural(count, "sequence")
    evidence = f"RMS(x / final norm gain) is {'' if proof is None else 'not '}1 in nearly all rows, in {sequences}"
    if proof is not None:
        message = f"{name} holds no postnorm, so the final norm was applied to it"
        return finding("target-prenorm", name, message, f"{evidence}; {proof}")
    return finding("target-postnorm", name, f"{name} holds postnorm, so lm_head was applied to it directly", evidence)
