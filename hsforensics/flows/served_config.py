"""Whether a capture was served with the drafter config at hand: only then does it measure what that config serves."""

from __future__ import annotations

from hsforensics.drafter.config import DrafterConfig
from hsforensics.findings import finding
from hsforensics.results import Provenance
from hsforensics.states import Finding, Wiring


def measures_config(config: DrafterConfig, origin: Provenance) -> bool:
    """Whether the capture is known to have been served with this very config, byte for byte."""
    return origin.served_config_sha256 == config.sha256


def other_config(
    config: DrafterConfig, origin: Provenance, served: Wiring | None, predicted: Wiring | None
) -> list[Finding]:
    """One finding where a capture does not, or may not, say what this config serves; else none.

    Args:
        config: The config at hand.
        origin: Says which config the capture was served with, if that is known.
        served: What was measured, by the engine that is judged; ``None`` when nothing was.
        predicted: What the id rule says that this config serves. Where the served config is not known, and the
            measurement is what the rule says of this one, there is nothing to doubt.
    """
    fits = origin.served_config_sha256 is None and served == predicted
    return [] if served is None or fits or measures_config(config, origin) else [not_measured(config, origin)]


def not_measured(config: DrafterConfig, origin: Provenance) -> Finding:
    """The finding that a capture was served with another config, or does not say with which."""
    known = origin.served_config_sha256
    message = "the capture was served with another config than this one, and does not show what this one serves"
    if known is None:
        message = "the capture does not say which config it was served with, so it may not show what this one serves"
    evidence = f"sha256 {known[:12] if known else 'unknown'} served, {config.sha256[:12]} given"
    return finding("other-config", str(config.path), message, evidence)
