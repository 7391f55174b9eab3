"""The hooks: what they record of a forward pass, what they leave alone, and that they never disturb it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hsforensics.capture import hook
from hsforensics.capture.hook_batch import pieces_of
from hsforensics.capture.sglang_flags import hook_specs
from hsforensics.capture.spool_read import Part, SpoolReader

LAYERS, WIDTH = 2, 4


def test_the_hook_brings_nothing_but_torch_and_the_standard_library_into_a_foreign_process() -> None:
    code = (
        "import sys, torch\n"
        "before = {name.split('.')[0] for name in sys.modules}\n"
        "import hsforensics.capture.hook\n"
        "new = {name.split('.')[0] for name in sys.modules} - before\n"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("['hsforensics']", "")


def batch(lengths: list[int], rids: list[str] | None, mode: str = "EXTEND", **more: Any) -> SimpleNamespace:
    positions = torch.cat([torch.arange(length) for length in lengths])
    known = {"forward_mode": SimpleNamespace(name=mode), "extend_seq_lens_cpu": lengths, "rids": rids}
    return SimpleNamespace(**{**known, "extend_prefix_lens_cpu": [0] * len(lengths), "positions": positions, **more})


class AddNorm(nn.Module):
    """An engine's norm: adds the residual and overwrites both of its arguments, as the kernels on CUDA do."""

    def forward(self, hidden: Tensor, residual: Tensor | None = None) -> Any:
        if residual is None:
            return hidden / 2
        residual += hidden
        hidden.copy_(residual / 2)
        return hidden, residual


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm = AddNorm()

    def forward(self, hidden: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        if residual is None:
            return self.input_layernorm(hidden) + 1, hidden
        hidden, residual = self.input_layernorm(hidden, residual)
        return hidden + 1, residual


class Model(nn.Module):
    """A stack like SGLang's; the states that it passes are written down in ``truth``."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(50, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = AddNorm()
        self.truth: list[Tensor] = []

    def forward(self, input_ids: Tensor) -> tuple[Tensor, list[Tensor]]:
        hidden, residual = self.embed_tokens(input_ids), None
        self.truth = [hidden.clone()]
        for index, layer in enumerate(self.layers):
            if index:
                self.truth.append(hidden + residual)
            hidden, residual = layer(hidden, residual)
        self.truth.append(hidden + residual)
        aux = [self.truth[1].clone(), self.truth[2].clone()]
        hidden, _ = self.norm(hidden, residual)
        return hidden, aux


class LogitsProcessor(nn.Module):
    def forward(self, _input_ids: Tensor, hidden: Tensor, _head: Any, _batch: Any, _aux: Any = None) -> Tensor:
        return hidden


class Target(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.logits_processor = LogitsProcessor()

    @torch.no_grad()
    def forward(self, input_ids: Tensor, about: Any) -> Tensor:
        hidden, aux = self.model(input_ids)
        result: Tensor = self.logits_processor(input_ids, hidden, None, about, aux)
        return result


def hooked(
    target: nn.Module, folder: Path, max_bytes: int = 1 << 20, *, rank_bytes: int = 1 << 20, every_rank: bool = False
) -> None:
    """Put the hooks on as SGLang does: a factory call for each spec, patterns over module names."""
    from fnmatch import fnmatch

    for spec in hook_specs(folder, LAYERS, max_bytes, rank_bytes=rank_bytes, every_rank=every_rank):
        made = hook.factory(spec["config"])
        assert made is not None or every_rank
        for name, module in target.named_modules():
            if made and any(fnmatch(name, pattern) for pattern in spec["target_modules"]):
                module.register_forward_hook(made)


def take(folder: Path, rid: str, tokens: list[int], role: str = "target", wait: float = 5.0) -> Part | None:
    return SpoolReader(folder).take(rid, tokens, (role,), wait).get(role)


@pytest.fixture
def target(tmp_path: Path) -> Target:
    torch.manual_seed(0)
    made = Target()
    hooked(made, tmp_path)
    return made


def test_all_states_are_recorded_though_the_engine_overwrites_them_in_place(target: Target, tmp_path: Path) -> None:
    target(torch.tensor([3, 1, 4]), batch([3], ["hsf-0"]))
    part = take(tmp_path, "hsf-0", [3, 1, 4])
    assert part is not None
    for state, truth in enumerate(target.model.truth):
        assert torch.equal(part.tensors[f"state.{state}"], truth)
    assert torch.equal(part.tensors["postnorm"], target.model.truth[LAYERS] / 2)
    assert torch.equal(part.tensors["served.0"], target.model.truth[1])
    assert torch.equal(part.tensors["served.1"], target.model.truth[2])
    assert part.tensors["positions"].tolist() == [0, 1, 2]


def test_a_packed_prefill_is_split_into_its_requests(target: Target, tmp_path: Path) -> None:
    target(torch.tensor([3, 1, 4, 1, 5]), batch([3, 2], ["hsf-0", "hsf-1"]))
    reader = SpoolReader(tmp_path)
    second = reader.take("hsf-1", [1, 5], ("target",), 5)["target"]
    assert torch.equal(second.tensors["state.1"], target.model.truth[1][3:])
    assert second.tensors["positions"].tolist() == [0, 1]
    assert reader.take("hsf-0", [3, 1, 4], ("target",), 5)["target"].tensors["state.0"].shape == (3, WIDTH)


def test_recording_changes_nothing_of_what_the_engine_computes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    bare, watched = Target(), Target()
    watched.load_state_dict(bare.state_dict())
    hooked(watched, tmp_path)
    about = batch([2], ["hsf-0"])
    assert torch.equal(bare(torch.tensor([7, 8]), about), watched(torch.tensor([7, 8]), about))


@pytest.mark.parametrize(
    "about",
    [
        batch([2], ["HEALTH_CHECK_1"]),
        batch([2], ["someone-else"]),
        batch([2], None),
        batch([2], ["hsf-0"], mode="DECODE"),
        batch([2], ["hsf-0"], mode="TARGET_VERIFY"),
        batch([2], ["hsf-0"], extend_prefix_lens_cpu=[5]),
        None,
    ],
    ids=["health", "stranger", "without a name", "decode", "verify", "cached prefix", "no batch"],
)
def test_anything_but_a_whole_prefill_that_was_asked_for_is_left_alone(about: Any) -> None:
    assert pieces_of(about, "hsf-") == []


def test_an_engine_that_names_no_requests_is_recorded_by_tokens(target: Target, tmp_path: Path) -> None:
    assert [piece.rid for piece in pieces_of(batch([2, 1], None), "")] == ["", ""]


def test_an_aux_that_arrives_packed_is_split_by_the_width_of_a_state(tmp_path: Path) -> None:
    packed = torch.arange(24.0).view(2, 12)
    assert torch.equal(hook._served(packed, WIDTH)["served.2"], packed[:, 8:])


def test_a_hook_that_fails_never_reaches_the_forward_pass_and_is_told_of(target: Target, tmp_path: Path) -> None:
    broken = batch([2], ["hsf-0"])
    del broken.positions
    target(torch.tensor([1, 2]), broken)
    assert "AttributeError" in SpoolReader(tmp_path).complaints


def test_an_unusable_config_registers_nothing_and_raises_nothing() -> None:
    assert hook.factory({}) is None
    assert hook.factory({"spool": "/nowhere", "point": "no such point", "max_bytes": 1}) is None


def test_a_full_spool_drops_passes_and_says_so(tmp_path: Path) -> None:
    target = Target()
    hooked(target, tmp_path, max_bytes=10)
    target(torch.tensor([1, 2]), batch([2], ["hsf-0"]))
    assert take(tmp_path, "hsf-0", [1, 2], wait=0.2) is None
    assert "dropped" in SpoolReader(tmp_path).complaints


def test_files_are_private_and_all_there_once_drained(target: Target, tmp_path: Path) -> None:
    target(torch.tensor([1, 2]), batch([2], ["hsf-0"]))
    hook._RECORDERS[str(tmp_path), 0].spool.drain(5)
    files = list(tmp_path.iterdir())
    assert [oct(file.stat().st_mode & 0o777) for file in files] == ["0o600"]


def test_another_rank_records_what_it_serves_only_when_asked_and_nothing_of_its_drafter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    configs = {
        every: [spec["config"] for spec in hook_specs(tmp_path, LAYERS, 1 << 20, rank_bytes=1 << 20, every_rank=every)]
        for every in (False, True)
    }
    assert [hook.factory(config) for config in configs[False]] == [None] * len(configs[False])
    assert [config["point"] for config in configs[True] if hook.factory(config)] == ["embed", "fc", "model", "logits"]
    rank, drafter = Target(), LlamaEagle3()
    hooked(rank, tmp_path, every_rank=True)
    hooked(drafter, tmp_path, every_rank=True)
    rank(torch.tensor([3, 1, 4]), batch([3], ["hsf-0"]))
    drafter(torch.tensor([1, 4, 9]), batch([3], ["hsf-0"]), torch.arange(24.0).view(3, 8))
    hook._RECORDERS[str(tmp_path), 2].spool.drain(5)
    assert [file.name.partition("-")[0] for file in tmp_path.iterdir()] == ["rank2"]
    part = take(tmp_path, "hsf-0", [3, 1, 4], "rank2")
    assert part is not None
    assert set(part.tensors) == {"token_ids", "positions", "served.0", "served.1"}
    assert torch.equal(part.tensors["served.1"], rank.model.truth[2])


class LlamaEagle3(Target):
    """A drafter: its model's class lives in a module with a drafter's word in its name."""

    def __init__(self) -> None:
        super().__init__()
        self.model.fc = nn.Linear(2 * WIDTH, WIDTH)

    @torch.no_grad()
    def forward(self, input_ids: Tensor, about: Any, joined: Tensor | None = None) -> Tensor:
        self.model.embed_tokens(input_ids)
        hidden = self.model.fc(joined)
        result: Tensor = self.logits_processor(input_ids, hidden, None, about)
        return result


def test_a_drafter_in_the_same_process_is_told_from_the_target(target: Target, tmp_path: Path) -> None:
    drafter = LlamaEagle3()
    hooked(drafter, tmp_path)
    joined = torch.arange(24.0).view(3, 8)
    target(torch.tensor([3, 1, 4]), batch([3], ["hsf-0"]))
    drafter(torch.tensor([1, 4, 9]), batch([3], ["hsf-0"]), joined)  # tokens move on by one, as in SGLang
    parts = SpoolReader(tmp_path).take("hsf-0", [3, 1, 4], ("target", "drafter"), 5)
    assert torch.equal(parts["drafter"].tensors["fc_input"], joined)
    assert "fc_input" not in parts["target"].tensors


@pytest.mark.parametrize(("rank", "bounds"), [(0, (10, 1 << 20)), (1, (1 << 20, 10)), (3, (1 << 20, 10))])
def test_each_rank_keeps_to_its_own_bound(
    rank: int, bounds: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
    target = Target()
    hooked(target, tmp_path, bounds[0], rank_bytes=bounds[1], every_rank=True)
    target(torch.tensor([1, 2]), batch([2], ["hsf-0"]))
    hook._RECORDERS[str(tmp_path), rank].spool.drain(5)
    assert [file.name for file in tmp_path.iterdir()] == ["complaints.txt"]
    assert "only 10 more" in SpoolReader(tmp_path).complaints


def test_what_nobody_took_is_forgotten(target: Target, tmp_path: Path) -> None:
    """Parts of requests that were given up, or of ranks that nobody asked for, must not pile up in memory."""
    reader = SpoolReader(tmp_path)
    target(torch.tensor([1, 2, 5, 6]), batch([2, 2], ["hsf-0", "hsf-1"]))
    assert set(reader.take("hsf-0", [1, 2], ("target",), 5)) == {"target"}
    hook._RECORDERS[str(tmp_path), 0].spool.drain(5)
    reader.forget()
    assert (reader._held, list(tmp_path.iterdir())) == ({}, [])
    assert reader.take("hsf-1", [5, 6], ("target",), 0) == {}
    target(torch.tensor([7, 8]), batch([2], ["hsf-2"]))
    assert set(reader.take("hsf-2", [7, 8], ("target",), 5)) == {"target"}
