"""The live matrix as data: which ids are given to which class of which version, and what it must serve.

Two ways to run a case. A *sweep* drives SGLang's own model runner in one process and gives the target many lists of ids
in turn. A *server* case is the user's way: ``hsforensics capture --engine sglang`` with a whole engine, its scheduler,
its drafter, and the drafter's config. Servers cost half a minute each, so they are chosen: every class and version
once, and among them each thing that only a server has: trees, tensor parallelism, no drafter, a death.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.sglang.models import LAYERS

Ids = tuple[int, ...] | None
Expected = tuple[int, ...] | Literal["dies", "off-bank", "shares"]
"""States that are served; or the engine dies; or what it serves is no state at all, or a rank's share of one."""

OLD = "0.5.12.post1"

_PLUS_ONE: dict[Ids, Expected] = {
    (1, 2, 3): (2, 3, 4),
    (2, 3, 4): (3, 4, 5),
    (0, 2, 4): (1, 3, 5),
    (3, 1, 2): (2, 3, 4),  # captured in layer order, whatever the list's order
    None: (2, LAYERS // 2, LAYERS - 3),
}
_DEEPSEEK: dict[Ids, Expected] = {
    (1, 2, 3): (2, 3, 4),
    (2, 3, 4): (2, 3, 4),
    (1, 3, 4): (2, 4, 5),
    (2, 1, 3): (1, 2, 3),  # the rule looks at the first id only
    (0, 2, 4): (0, 2, 4),
}
_LAST = (LAYERS // 2, LAYERS - 2, LAYERS)

SWEEPS: dict[tuple[str, str], dict[Ids, Expected]] = {
    ("LlamaForCausalLM", "0.5.20"): {**_PLUS_ONE, (-1, 1, 2): "dies"},
    ("LlamaForCausalLM", "0.5.23"): {**_PLUS_ONE, (-1, 1, 2): (0, 2, 3)},
    ("DeepseekV3ForCausalLM", "0.5.20"): _DEEPSEEK,
    ("DeepseekV3ForCausalLM", "0.5.23"): _DEEPSEEK,
    ("DeepseekV3ForCausalLM", OLD): {(1, 2, 3): (2, 3, 4), (2, 3, 4): (3, 4, 5), (1, 3, 4): (2, 4, 5)},
    ("Qwen3MoeForCausalLM", "0.5.20"): {**_PLUS_ONE, (-1, 1, 2): (0, 2, 3)},
    ("Qwen3MoeForCausalLM", "0.5.23"): {**_PLUS_ONE, (-1, 1, 2): (0, 2, 3)},
    ("GptOssForCausalLM", "0.5.20"): {**_PLUS_ONE, _LAST: _LAST, (-1, 1, 2): (0, 2, 3)},
    ("GptOssForCausalLM", "0.5.23"): {**_PLUS_ONE, _LAST: _LAST, (-1, 1, 2): (0, 2, 3)},
    ("Glm4MoeForCausalLM", "0.5.20"): {**_PLUS_ONE, (-1, 1, 2): "dies"},
    ("Glm4MoeForCausalLM", "0.5.23"): {**_PLUS_ONE, (-1, 1, 2): (0, 2, 3)},
    ("Gemma3ForCausalLM", "0.5.20"): {(1, 2, 3): "off-bank", (2, 3, 4): "off-bank"},
    ("Gemma3ForCausalLM", "0.5.23"): {(1, 2, 3): "off-bank", (2, 3, 4): "off-bank"},
}
"""(class, version) -> ids -> what must be served."""


@dataclass(frozen=True)
class ServerCase:
    """One whole engine."""

    architecture: str
    version: str
    ids: Ids
    expected: Expected
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """A short name for the test's id and the table."""
        how = " ".join(f"{key}={value}" for key, value in self.options)
        return " ".join(filter(None, [self.architecture, self.version, show_ids(self.ids), how]))


def show_ids(ids: Sequence[int] | None) -> str:
    """``[1, 2, 3]``, or ``none``."""
    return "none" if ids is None else f"[{', '.join(map(str, ids))}]"


_DEFERRED = (("tp", 2), ("every_rank", True), ("deferred", True))
"""Each MLP leaves its all-reduce to the next layer: Qwen3Moe reduces before it hands a state on, GptOss does not."""

SERVERS = (
    ServerCase("LlamaForCausalLM", "0.5.20", (1, 2, 3), (2, 3, 4), (("new_tokens", 8),)),
    ServerCase("LlamaForCausalLM", "0.5.23", (-1, 2, 3), (0, 3, 4), (("new_tokens", 8),)),
    ServerCase("LlamaForCausalLM", "0.5.20", (-1, 2, 3), "dies"),
    ServerCase("LlamaForCausalLM", "0.5.20", None, (), (("algorithm", "none"),)),
    ServerCase("LlamaForCausalLM", "0.5.23", (2, 3, 4), (3, 4, 5), (("tp", 2), ("every_rank", True))),
    ServerCase("DeepseekV3ForCausalLM", "0.5.20", (2, 3, 4), (2, 3, 4)),
    ServerCase("DeepseekV3ForCausalLM", "0.5.23", (1, 2, 3), (2, 3, 4)),
    ServerCase("Qwen3MoeForCausalLM", "0.5.20", (1, 2, 3), (2, 3, 4), (("tree", True), ("new_tokens", 8))),
    ServerCase("Qwen3MoeForCausalLM", "0.5.23", (0, 2, 4), (1, 3, 5)),
    ServerCase("Qwen3MoeForCausalLM", "0.5.20", (2, 3, 4), (3, 4, 5), _DEFERRED),
    ServerCase("GptOssForCausalLM", "0.5.20", _LAST, _LAST),
    ServerCase("GptOssForCausalLM", "0.5.20", (1, 2, 3), "shares", _DEFERRED),
    ServerCase("GptOssForCausalLM", "0.5.23", (1, 2, 3), (2, 3, 4), (("tree", True), ("new_tokens", 8))),
    ServerCase("Gemma3ForCausalLM", "0.5.20", (1, 2, 3), "off-bank", (("middle", True),)),
    ServerCase("Gemma3ForCausalLM", "0.5.23", (1, 2, 3), "off-bank", (("middle", True),)),
)
