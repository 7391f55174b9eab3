"""Rules read out of an engine's own code, without importing it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hsforensics.errors import HsfError
from hsforensics.rules.introspect.classes import ClassIndex
from hsforensics.rules.introspect.probe import ProbedHook, is_target, probe_classes
from hsforensics.rules.introspect.read import introspect
from hsforensics.rules.introspect.sources import read_sources
from hsforensics.rules.lookup import parse_engine
from tests.rules.introspect.engines import LLAMA, make_tree, make_wheel, setter


def _probed(root: Path) -> dict[str, ProbedHook]:
    sources = read_sources(str(root))
    index = ClassIndex(sources)
    return {hook.architecture: hook for hook in probe_classes(index, index.entry_classes(), sources.origin)}


def test_setters_of_every_shape_are_understood(tmp_path: Path) -> None:
    found = _probed(make_tree(tmp_path))
    rules = {name: (hook.rule, hook.default, hook.top, hook.marks) for name, hook in found.items()}
    assert rules == {
        "LlamaForCausalLM": ("plus_one", "canonical", "taken", "list"),
        "MistralForCausalLM": ("plus_one", "canonical", "taken", "list"),
        "ListSetter": ("captures_nothing", "none", "dropped", "flag"),
        "FlagSetter": ("plus_one", "canonical", "taken", "list"),
        "Derived": ("plus_one", "canonical", "IndexError", "flag"),
        "Wrapper": ("plus_one", "canonical", "IndexError", "flag"),
    }


@pytest.mark.parametrize("form", ["directory", "package", "wheel"])
def test_a_wheel_and_an_unpacked_one_read_the_same(tmp_path: Path, form: str) -> None:
    tree = make_tree(tmp_path / "tree")
    places = {"directory": tree, "package": tree / "sglang", "wheel": make_wheel(tree, tmp_path / "a.whl")}
    sources = read_sources(str(places[form]))
    assert sources.version == "0.5.99"
    assert sources.files["sglang.srt.models.llama"] == LLAMA


def test_the_code_counts_where_the_tables_say_otherwise(tmp_path: Path) -> None:
    changed = LLAMA.replace("[val + 1 for val in layer_ids]", "list(layer_ids)")
    same = introspect(str(make_tree(tmp_path / "a")), "LlamaForCausalLM", "eagle3", None)
    other = introspect(str(make_tree(tmp_path / "b", llama=changed)), "LlamaForCausalLM", "eagle3", None)
    assert (str(same.engine), same.agrees, same.rule.rule) == ("sglang==0.5.99", True, "plus_one")
    assert (other.agrees, other.rule.rule, other.rule.state_zero) == (False, "as_is", True)


def test_a_class_that_no_table_knows_gets_a_row_that_promises_nothing(tmp_path: Path) -> None:
    seen = introspect(str(make_tree(tmp_path)), "Wrapper", "eagle3", None)
    assert seen.tables is None
    assert (seen.rule.rule, seen.rule.state_zero, seen.rule.last_state) == ("plus_one", False, "crashes")


@pytest.mark.parametrize(
    ("architecture", "method", "engine", "code", "named"),
    [
        ("NoSuchForCausalLM", "eagle3", None, "rule-unknown", "no model class"),
        ("LlamaForCausalLM", "dflash", None, "rule-unknown", "no hook for dflash"),
        ("LlamaForCausalLM", "eagle3", "sglang==0.5.16", "usage", "0.5.99"),
        ("LlamaForCausalLM", "eagle3", "vllm==0.33.0", "usage", "only SGLang"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    tmp_path: Path, architecture: str, method: str, engine: str | None, code: str, named: str
) -> None:
    expected = parse_engine(engine) if engine else None
    with pytest.raises(HsfError, match=named) as caught:
        introspect(str(make_tree(tmp_path)), architecture, "dflash" if method == "dflash" else "eagle3", expected)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "body",
    [
        "import os\nos.abort()",
        "open('x', 'w')",
        "self.__class__.__mro__",
        "getattr(self, '__class__').mro()",
        "'{0.__class__}'.format(self)",
        "exec('1')",
        "self.x = (lambda: 1)()",
        "self.x = 10 ** 10 ** 10",
        "self.x = layer_ids[0] << 99999999",
        "try:\n    pass\nexcept Exception:\n    pass",
        "while True:\n    pass",
        "global x\nx = 1",
        "self.__world__.globals",
        "g = (g.gi_frame.f_back for i in [1])\nself.x = [i for i in g]",
        "g = (1 for i in [1])\ngetattr(g, 'gi_' + 'frame')",
        "setattr(len, 'x', 1)",
    ],
)
def test_code_that_is_more_than_a_setter_never_runs_or_gets_nowhere(tmp_path: Path, body: str) -> None:
    root = make_tree(tmp_path, evil=setter(body))
    with pytest.raises(HsfError) as caught:
        introspect(str(root), "EvilForCausalLM", "eagle3", None)
    assert caught.value.code == "rule-unknown"


def test_a_setter_that_eats_memory_ends_as_a_refusal(tmp_path: Path) -> None:
    body = "x = [0]\nfor i in range(64):\n    x = x + x\nself.model.layers_to_capture = x"
    root = make_tree(tmp_path, evil=setter(body))
    with pytest.raises(HsfError) as caught:
        introspect(str(root), "EvilForCausalLM", "eagle3", None)
    assert caught.value.code in ("engine-unreadable", "rule-unknown")


def test_private_names_built_at_run_time_are_refused_in_the_process_too(tmp_path: Path) -> None:
    root = make_tree(tmp_path, evil=setter("getattr(self, '_' + '_class_' + '_')"))
    with pytest.raises(HsfError, match="PermissionError"):
        introspect(str(root), "EvilForCausalLM", "eagle3", None)


@pytest.mark.parametrize("kind", ["missing", "empty", "no-zip", "not-installed"])
def test_a_place_without_an_sglang_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.whl").write_bytes(b"PK nonsense")
    places = {"missing": tmp_path / "no", "empty": tmp_path / "empty", "no-zip": tmp_path / "a.whl"}
    place = str(places.get(kind, "installed"))
    with pytest.raises(HsfError) as caught:
        read_sources(place)
    assert caught.value.code == ("not-found" if kind == "missing" else "engine-unreadable")


@pytest.mark.parametrize(
    ("name", "target"),
    [("LlamaForCausalLM", True), ("DeepseekV3ForCausalLMNextN", False), ("LlamaForCausalLMEagle3", False)],
)
def test_drafters_are_no_targets(name: str, target: bool) -> None:
    assert is_target(name) == target


def test_the_installed_package_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make_tree(tmp_path)
    (tree / "sglang" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tree))
    sources = read_sources("installed")
    assert (sources.version, sources.origin) == ("0.5.99", str(tree))
    assert "sglang" not in sys.modules
