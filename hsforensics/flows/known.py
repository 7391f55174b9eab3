"""What a result knows of the words that commands of remedies leave open."""

from __future__ import annotations

from pathlib import Path

from hsforensics.finding_kinds import ASK_IDS, MEASURE
from hsforensics.findings import finding
from hsforensics.results import Provenance
from hsforensics.rules.functions import HOPELESS
from hsforensics.rules.lookup import known_engines
from hsforensics.shell import path_text
from hsforensics.states import Finding, Wiring, is_class_name, is_state

FINGERPRINT = "fingerprint of "
"""How the producer of dumps begins when only their fingerprint was read."""


_NO_IDS_HELP = "No ids can mend it: ask which other version or engine serves the states that you want."


def known_words(origin: Provenance, engine: str | None = None) -> dict[str, str]:
    """Placeholders of commands (``hsforensics.findings.PLACEHOLDERS``) -> what they stand for, where that is known.

    A path that is not on this machine, such as that of the target that a capture was made with elsewhere, is not; nor
    are the dumps that a fingerprint was made of.

    Args:
        origin: Where the result came from.
        engine: ``NAME==VERSION`` that the result is about, if the capture's engine serves no drafter.
    """
    dumps = [item.path for item in origin.dumps if not item.producer.startswith(FINGERPRINT)]
    captured = f"{origin.engine}=={origin.engine_version}"
    serving = captured if origin.engine in known_engines() and origin.engine_version else engine
    paths = known_paths(
        DUMPS=dumps[0] if dumps else None,
        CAPTURE=origin.capture_path,
        MODEL=origin.target_path,
        DRAFTER=origin.drafter_path,
    )
    return paths | engine_words(serving, origin.target_wrapper, origin.layers)


def engine_words(
    engine: str | None, architecture: str | None, layers: int | None, wiring: Wiring | None = None
) -> dict[str, str]:
    """Placeholders -> an engine, a model class, L, and the states of a wiring if all are known.

    What is no name of a class, or no state, stays open: files of strangers say all sorts of things.

    Args:
        engine: ``NAME==VERSION``.
        architecture: The target's model class.
        layers: L.
        wiring: States to be served.
    """
    states = ",".join(map(str, wiring)) if wiring and all(map(is_state, wiring)) else None
    name = architecture if architecture and is_class_name(architecture) else None
    facts = {"ENGINE==VERSION": engine, "CLASS": name, "LAYERS": layers, "STATES": states}
    return {word: str(value) for word, value in facts.items() if value is not None}


def known_paths(**paths: str | Path | None) -> dict[str, str]:
    """Placeholder -> path, for paths that are there, and that this user may know of."""
    return {word: path_text(path) for word, path in paths.items() if path and _is_there(path)}


def _is_there(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # of another user, too long, or no path at all: a capture made elsewhere says so
        return False


def to_measure(engine: str) -> tuple[str, ...]:
    """Templates of commands that measure what an engine serves; none for engines that nothing here can record.

    Args:
        engine: ``NAME==VERSION``.
    """
    return MEASURE if engine.startswith("sglang==") else ()


def served_nothing(code: str, rule: str, where: str, message: str, evidence: str) -> Finding:
    """The finding that an engine serves no state with some ids: other ids mend it, or no ids do, by the rule's name."""
    if rule not in HOPELESS:
        return finding(code, where, message, evidence, confidence="predicted")
    remedy, ask = _NO_IDS_HELP, (ASK_IDS,)
    return finding(code, where, message, evidence, remedy=remedy, confidence="predicted", commands=ask)
