"""A toy engine in one process: hooks by pattern, a target, a drafter, and several ways to fail (``--mood``)."""

import json
import os
import signal
import subprocess
import sys
import time
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import nn


class AddNorm(nn.Module):
    def forward(self, hidden, residual=None):
        return hidden / 2 if residual is None else ((hidden + residual) / 2, hidden + residual)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = AddNorm()

    def forward(self, hidden, residual):
        if residual is None:
            return self.input_layernorm(hidden).sin(), hidden
        hidden, residual = self.input_layernorm(hidden, residual)
        return hidden.cos(), residual


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer() for _ in range(config["num_hidden_layers"]))
        self.norm = AddNorm()

    def forward(self, input_ids):
        hidden, residual, aux = self.embed_tokens(input_ids), None, []
        for index, layer in enumerate(self.layers):
            if index:
                aux.append(hidden + residual)
            hidden, residual = layer(hidden, residual)
        return self.norm(hidden, residual)[0], aux[:2]


class LogitsProcessor(nn.Module):
    def forward(self, _input_ids, hidden, _head, _batch, _aux=None):
        return hidden


class Target(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = Model(config)
        self.logits_processor = LogitsProcessor()

    def forward(self, input_ids, batch, mood, rank=0):
        hidden, aux = self.model(input_ids)
        aux = [value * 3 for value in aux] if mood == "off-bank" else aux
        if mood == "shares":  # each rank holds its own part of the second state
            aux[1] = aux[1] * (0.9, 1.3)[rank]
        if mood == "short" and rank:
            aux[1] = aux[1][:-1]
        if mood == "narrow" and rank:
            aux[1] = aux[1][:, :-1]
        self.logits_processor(input_ids, hidden, None, batch, aux)
        return None if rank else torch.cat(aux, 1)


class DrafterModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["hidden_size"]
        self.embed_tokens = nn.Embedding(config["vocab_size"], width)
        self.fc = nn.Linear(2 * width, width)

    def forward(self, input_ids, joined):
        self.embed_tokens(input_ids)
        return self.fc(joined)


class Drafter(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = DrafterModel(config)
        self.logits_processor = LogitsProcessor()

    def forward(self, input_ids, batch, joined):
        self.logits_processor(input_ids, self.model(input_ids, joined), None, batch)


def hook(model, specs):
    for spec in specs:
        module, _, name = spec["hook_factory"].partition(":")
        made = getattr(import_module(module), name)(spec["config"])
        for path, part in model.named_modules():
            if made and any(fnmatch(path, pattern) for pattern in spec["target_modules"]):
                part.register_forward_hook(made)


class Engine:
    def __init__(self, server_args):
        self.args = server_args
        if server_args.mood == "broken":
            raise RuntimeError("the fake engine cannot load this model")
        if server_args.mood in ("orphans", "hangs"):
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
            (Path(server_args.model_path) / "orphan.pid").write_text(str(child.pid))
        config = json.loads((Path(server_args.model_path) / "config.json").read_text())
        self.target = Target(config)
        self.drafter = Drafter(config) if server_args.speculative_draft_model_path else None
        hook(self.target, server_args.forward_hooks)
        ranks = server_args.tp_size + 2 * (server_args.mood == "more-ranks")
        self.ranks = [self._rank(config, rank) for rank in range(1, ranks)]
        if self.drafter:
            hook(self.drafter, server_args.forward_hooks)

    def _rank(self, config, rank):
        """Another rank's copy of the target, in this process: its hooks are told the rank when they are made."""
        copy = Target(config)
        copy.load_state_dict(self.target.state_dict())
        asked = torch.distributed.is_initialized, torch.distributed.get_rank
        torch.distributed.is_initialized, torch.distributed.get_rank = lambda: True, lambda: rank
        hook(copy, self.args.forward_hooks)
        torch.distributed.is_initialized, torch.distributed.get_rank = asked
        return copy

    @torch.no_grad()
    def generate(self, input_ids=None, sampling_params=None, rid=None):  # noqa: ARG002 (as in SGLang)
        mood = self.args.mood
        if mood == "killed":
            sys.stderr.write("scheduler hit an exception\n")
            os.kill(os.getpid(), signal.SIGKILL)
        if mood == "hangs":
            time.sleep(300)
        if mood == "refuses":
            raise ValueError("the input is longer than the model's context length")
        lengths = [len(ids) for ids in input_ids]
        mode = SimpleNamespace(name="DECODE" if mood == "graphs" else "EXTEND")
        batch = SimpleNamespace(forward_mode=mode, extend_seq_lens_cpu=lengths, rids=rid, spec_info=None)
        batch.extend_prefix_lens_cpu = [0] * len(lengths)
        batch.positions = torch.cat([torch.arange(length) for length in lengths])
        packed = torch.cat([torch.tensor(ids) for ids in input_ids])
        for rank, copy in enumerate(self.ranks, start=1):
            copy(packed, batch, mood, rank)
        joined = self.target(packed, batch, mood)
        if self.drafter:
            if mood == "shuffled":
                joined = joined.flip(1)
            self.drafter(torch.cat([torch.tensor([*ids[1:], 7]) for ids in input_ids]), batch, joined)
        meta = {"spec_verify_ct": 4, "spec_num_correct_drafts": 6} if self.drafter else {}
        return [{"output_ids": [7], "meta_info": meta} for _ in input_ids]

    def shutdown(self):
        pass
