"""Small made-up SGLangs as source trees: the shapes of setter and wrapper that real releases have."""

from __future__ import annotations

import zipfile
from pathlib import Path

LLAMA = '''
class LlamaModel(Module):
    def __init__(self, config):
        self.layers_to_capture = []

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            if i in self.layers_to_capture:
                self.aux.append(x)


class LlamaForCausalLM(Module):
    def __init__(self, config):
        self.model = self._init_model(config)

    def _init_model(self, config):
        return LlamaModel(config)

    def set_eagle3_layers_to_capture(self, layer_ids: Optional[List[int]] = None) -> None:
        """Says what it does."""
        if not self.pp_group.is_last_rank:
            return
        self.capture_aux_hidden_states = True
        if layer_ids is None:
            num_layers = self.config.num_hidden_layers
            self.model.layers_to_capture = [2, num_layers // 2, num_layers - 3]
        else:
            self.model.layers_to_capture = [val + 1 for val in layer_ids]


class MistralForCausalLM(LlamaForCausalLM):
    pass


EntryClass = [LlamaForCausalLM, MistralForCausalLM]
'''

FLAGS = """
from sglang.srt.models import llama
from sglang.srt.models.llama import LlamaForCausalLM


class FlagModel(Module):
    def forward(self, x):
        for layer in self.layers:
            if getattr(layer, "_is_layer_to_capture", False):
                self.aux.append(x)

    def set_eagle3_layers_to_capture(self, layers_to_capture):
        self.layers_to_capture = layers_to_capture
        for layer_id in self.layers_to_capture:
            setattr(self.layers[layer_id], "_is_layer_to_capture", True)


class ListSetter(LlamaForCausalLM):
    body_cls = FlagModel

    def __init__(self, config):
        self.model = self.body_cls(config)


class FlagSetter(Module):
    def __init__(self, config, language_model_cls=llama.LlamaModel):
        self.model = language_model_cls(config)

    def set_eagle3_layers_to_capture(self, layer_ids=None):
        if layer_ids is None:
            n = len(self.model.layers)
            wanted = [2, n // 2, n - 3]
        else:
            wanted = [i + 1 for i in layer_ids]
        if hasattr(self.model, "set_eagle3_layers_to_capture"):
            self.model.set_eagle3_layers_to_capture(wanted)
        else:
            self.model.layers_to_capture = wanted


class Derived(FlagSetter):
    def __init__(self, config, language_model_cls=FlagModel):
        super().__init__(config, language_model_cls)


class Wrapper(Module):
    def __init__(self, config):
        self.language_model = Derived(config)

    def set_eagle3_layers_to_capture(self, layer_ids=None):
        self.language_model.set_eagle3_layers_to_capture(layer_ids)


EntryClass = [ListSetter, FlagSetter, Derived, Wrapper]
"""


def make_tree(root: Path, version: str = "0.5.99", **models: str) -> Path:
    """An unpacked wheel that holds these model files (and the two above)."""
    directory = root / "sglang" / "srt" / "models"
    directory.mkdir(parents=True)
    for name, text in {"llama": LLAMA, "flags": FLAGS, **models}.items():
        (directory / f"{name}.py").write_text(text)
    info = root / f"sglang-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: sglang\nVersion: {version}\n")
    return root


def make_wheel(tree: Path, path: Path) -> Path:
    """The same tree as a wheel."""
    with zipfile.ZipFile(path, "w") as wheel:
        for file in sorted(tree.rglob("*")):
            if file.is_file():
                wheel.write(file, file.relative_to(tree).as_posix())
    return path


def setter(body: str) -> str:
    """A model file whose only class has this setter body."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    head = "class EvilForCausalLM(Module):\n    def set_eagle3_layers_to_capture(self, layer_ids=None):\n"
    return f"{head}{lines}\n\n\nEntryClass = EvilForCausalLM\n"
