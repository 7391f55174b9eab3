"""Norm switches of a drafter that an engine must honour, or it computes another drafter, and from which version on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hsforensics.rules.lookup import EngineVersion, covers
from hsforensics.rules.tables import ENGINES


@dataclass(frozen=True)
class FlagSupport:
    """One switch in one engine.

    Attributes:
        versions: PEP 440 specifier of the versions that honour it; ``None`` for no version looked at.
        otherwise: What the others do.
    """

    engine: str
    flag: str
    versions: str | None
    otherwise: str
    source: str


_SILENT = "ignore it and say nothing"

FLAG_SUPPORT: Final = (
    FlagSupport("sglang", "norm_before_residual", None, _SILENT, "models/llama_eagle3.py"),
    FlagSupport("sglang", "norm_before_fc", ">=0.5.17", _SILENT, "models/llama_eagle3.py, sglang#32334"),
    FlagSupport("sglang", "fc_norm", ">=0.5.12", _SILENT, "models/llama_eagle3.py"),
    FlagSupport("sglang", "norm_output", ">=0.5.12", _SILENT, "models/llama_eagle3.py"),
    FlagSupport("vllm", "norm_before_residual", ">=0.12", _SILENT, "model_executor/models/llama_eagle3.py"),
    FlagSupport("vllm", "norm_before_fc", ">=0.20.2", _SILENT, "model_executor/models/llama_eagle3.py, vllm#38111"),
    FlagSupport("vllm", "fc_norm", ">=0.22.1", _SILENT, "model_executor/models/llama_eagle3.py"),
    FlagSupport("vllm", "norm_output", ">=0.22.1", _SILENT, "model_executor/models/llama_eagle3.py"),
    FlagSupport("tensorrt-llm", "norm_before_residual", None, _SILENT, "_torch/models/modeling_speculative.py"),
)


def ignored_flags(engine: EngineVersion, flags: dict[str, bool]) -> tuple[FlagSupport, ...]:
    """The switches that are on and that this engine version does not honour, as far as is known."""
    row = ENGINES.get(engine.name)
    base = row.rules_of if row else engine.name
    wanted = (row for row in FLAG_SUPPORT if row.engine == base and flags.get(row.flag))
    return tuple(row for row in wanted if row.versions is None or not covers(row.versions, engine.version))
