"""The incident of Kimi-K2.5 as small files: the drafter with the wrong fix in its config, and a compare report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from hsforensics.models.checkpoint import open_checkpoint
from hsforensics.results import ChannelRecord, CompareResult, Provenance
from hsforensics.states import Identity, State, Wiring

KIMI, DEEPSEEK = "KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLM"
LAYERS = 61
WIDTH = 4  # of a state; the real one is 7168
TRAINED = (3, 31, 59)


def write_config(directory: Path, **changed: Any) -> Path:
    """A drafter's ``config.json`` as trainers write it, with the incident's wrong fix; ``...`` leaves a key out."""
    data = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [-1, 2, 30], "use_aux_hidden_state": True},
        "hidden_size": WIDTH,
        **changed,
    }
    file = directory / "config.json"
    file.write_text(json.dumps({key: value for key, value in data.items() if value is not ...}, indent=2) + "\n")
    return file


def write_weights(directory: Path, states: int = 3) -> str:
    """An ``fc`` for this many states, and the hash of the structure."""
    save_file({"fc.weight": torch.zeros(WIDTH, states * WIDTH)}, directory / "model.safetensors")
    return open_checkpoint(directory, "drafter-unreadable").structure_sha256()


def channel(index: int, state: State | None, identity: Identity = "match", role: Any = "aux") -> ChannelRecord:
    """A dump channel as compare records it."""
    return ChannelRecord(
        side="dump",
        index=index,
        label=f"hidden_states[{index}]",
        claim=None,
        role=role,
        identity=identity,
        state=state,
        distance=0.001,
        runner_up_state=None,
        runner_up=None,
        margin=None,
        votes=None,
        votes_interval=None,
        tokens=100,
        norm=None,
        row=None,
        values=(),
        reference=(),
        claimed_reference=(),
        against="nothing",
        status="matched",
        note="as close as the next state",
    )


def report(trained: Wiring | None = TRAINED, served: Wiring | None = None, **origin: Any) -> CompareResult:
    """A compare report of the incident; ``origin`` changes its provenance."""
    facts = {"target_wrapper": KIMI, "target_inner": DEEPSEEK, "layers": LAYERS, "hidden_size": WIDTH}
    return CompareResult(
        verdict="misaligned",
        tier="live" if served else "bank",
        trained_wiring=trained,
        served_wiring=served,
        predicted=None,
        offsets=None,
        offset_uniform=None,
        channels=(
            *(channel(index, state) for index, state in enumerate(trained or ())),
            channel(len(trained or ()), LAYERS, role="target"),
        ),
        findings=(),
        tokens=100,
        sequences=2,
        provenance=Provenance(hsforensics="0", command=(), created="", **{**facts, **origin}),
    )


def with_channels(base: CompareResult, *channels: ChannelRecord) -> CompareResult:
    """The report with other channel records."""
    return replace(base, channels=channels)
