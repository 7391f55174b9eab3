"""The catalogue of findings: every stable code, its usual severity, what it means, and what to do.

``hsforensics findings`` prints this table; ``docs/findings.md`` is generated from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from hsforensics.finding_kinds import (
    ASK_IDS,
    CHANNEL_KINDS,
    DATA_KINDS,
    MAKE_BANK,
    MEASURE,
    REPAIR,
    FindingKind,
)
from hsforensics.shell import Filled, quoted
from hsforensics.states import Finding, Severity

__all__ = ["CATALOGUE", "PLACEHOLDERS", "YOURS", "FindingKind", "fill", "fill_findings", "finding"]

YOURS = ("DUMPS", "CAPTURE", "MODEL", "DRAFTER", "ENGINE==VERSION", "CLASS", "LAYERS", "STATES")
"""Words of a command that stand for what the user has: paths, an engine, the target's class and L, a wiring."""

PLACEHOLDERS = (*YOURS, "BANK", "LIVE", "PERMUTED")
"""These, and the names of what a command makes, which only the user can choose."""

_WORD = re.compile(r"(?<=\s)(?:" + "|".join(map(re.escape, PLACEHOLDERS)) + r")(?=\s|$)")

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
        "Make the config ask this engine for the trained states.",
        REPAIR,
    ),
    FindingKind(
        "offset-mixed",
        "error",
        "Served and trained states differ, and not by one common number of layers.",
        "Make the config ask this engine for the trained states.",
        REPAIR,
    ),
    FindingKind(
        "channel-order",
        "error",
        "The right states are served in another order than the one trained.",
        "Engines join states in ascending order: retrain, or permute the column blocks of fc.weight.",
        (REPAIR[0], f"{REPAIR[1]} --permute-fc --output PERMUTED"),
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
        MEASURE,
    ),
    FindingKind(
        "config-serves-other",
        "error",
        "By the id rule, this config makes the engine serve other states than the trained ones.",
        "Make the config ask this engine for the trained states.",
        REPAIR,
    ),
    FindingKind(
        "config-serves-trained",
        "info",
        "By the id rule, this config makes the engine serve the trained states.",
        "Capture a live engine to turn the prediction into a measurement.",
        MEASURE,
    ),
    *CHANNEL_KINDS,
    *DATA_KINDS,
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
        "The bank lacks some of the states 0 to L: only equal bits prove a state, since the right one may be missing.",
        "Make the whole bank, and compare again.",
        MAKE_BANK,
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
        "Compare it with the accept length that the drafter reaches offline on the same text.",
        ("hsforensics draft-eval DRAFTER --target MODEL --data CAPTURE --wiring STATES",),
    ),
    # -- config and rules ---------------------------------------------------------------------------------------
    FindingKind(
        "serving-unchecked",
        "warning",
        "Nothing was given that says which states this config makes an engine serve.",
        "Name the engine, or give a live capture that was served with this very config.",
        (
            "hsforensics contract verify DRAFTER --engine ENGINE==VERSION",
            "hsforensics contract verify DRAFTER LIVE",
        ),
    ),
    FindingKind(
        "predicted-not-measured",
        "info",
        "What the edited config will serve follows from a rule; nobody has measured it yet.",
        "Capture the restarted engine and compare again.",
        MEASURE,
    ),
    FindingKind(
        "not-predicted",
        "warning",
        "An engine, class or code was named to predict for, but no drafter, whose config holds the layer ids.",
        "Give the drafter as well: --draft DRAFTER.",
        ("hsforensics compare DUMPS CAPTURE --draft DRAFTER --engine ENGINE==VERSION",),
    ),
    FindingKind(
        "fc-unread",
        "warning",
        "The drafter given has no fc whose width says how many channels are aux.",
        "Give the directory of the whole drafter, weights included.",
    ),
    FindingKind(
        "ids-lost",
        "error",
        "The engine captures fewer states than ids were given, so fc gets another width than it was trained with.",
        "Leave out ids that are doubled or outside of the model; ask which ones serve the states that you want.",
        (ASK_IDS,),
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
        "other-config",
        "info",
        "The live capture was served with another drafter config than the one given, or does not say with which: what "
        "this one serves is judged by id rule.",
        "Give the config that was served, or capture again with this one.",
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
        "Ask which ids serve the states that you want, or let hsforensics fix-config write them.",
        (ASK_IDS,),
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
        "weights-unchecked",
        "warning",
        "The contract holds no hash of the weights' values, so other weights of the same structure would pass.",
        "Write the contract anew beside the trained weights, with the same options: it gets the hash.",
        ("hsforensics contract write DRAFTER --wiring STATES --target MODEL --dumps DUMPS",),
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
        "Heed it, and measure what is served with a live capture.",
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
        "The others are miswired. Whether it is exactly the trained wiring, only values say.",
        ("hsforensics compare DUMPS CAPTURE --draft DRAFTER",),
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
    share: float | None = None,
    commands: tuple[str, ...] | None = None,
) -> Finding:
    """Build a finding of a catalogued kind; severity, remedy and commands default to the kind's own.

    A remedy of its own comes without the kind's commands.
    """
    kind = CATALOGUE[code]
    typed = commands if commands is not None else () if remedy else kind.commands
    rest = (remedy or kind.remedy, confidence, share, typed)
    return Finding(code, severity or kind.severity, where, message, evidence, *rest)


def fill(command: str, words: Mapping[str, str]) -> str:
    """A command with its placeholders replaced where they are known, quoted for a shell.

    Args:
        command: A template, or what filling one gave; then both calls' words go into the template together, the earlier
            ones first.
        words: Placeholder -> what it stands for. What cannot be shown as it is stays a placeholder.
    """
    before = command if isinstance(command, Filled) else Filled.of(command, command, {})
    template, known = before.template, {**words, **before.words}
    shown = {word: text for word, value in known.items() if (text := quoted(value))}
    return Filled.of(_WORD.sub(lambda match: shown.get(match[0], match[0]), template), template, known)


def fill_findings(findings: Iterable[Finding], words: Mapping[str, str]) -> tuple[Finding, ...]:
    """Findings whose commands name what is known; see ``fill``."""
    return tuple(replace(item, commands=tuple(fill(text, words) for text in item.commands)) for item in findings)
