"""How SGLang is started: what makes a capture exact is always there, and the user's own arguments come last."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path

import pytest

from hsforensics.capture.sglang_flags import LiveOptions, engine_argv, hook_specs, installed_version, other_tp
from hsforensics.errors import HsfError
from tests.flows.test_capture_live import FAKE

OPTIONS = LiveOptions(Path("python"))


def argv(options: LiveOptions = OPTIONS, version: str = "0.5.23", drafter: Path | None = Path("d")) -> list[str]:
    return engine_argv(Path("m"), drafter, options, version)


def matched(name: str) -> list[str]:
    specs = hook_specs(Path("spool"), 12, 1, middle=True)
    return [spec["config"]["point"] for spec in specs if any(fnmatch(name, p) for p in spec["target_modules"])]


@pytest.mark.parametrize(
    ("version", "flag"),
    [
        ("0.5.23", "--cuda-graph-backend-prefill=disabled"),
        ("0.5.16", "--cuda-graph-backend-prefill=disabled"),
        ("0.5.15.post1", "--disable-cuda-graph"),
        ("0.5.12.post1", "--disable-cuda-graph"),
        ("0.6.0rc1", "--cuda-graph-backend-prefill=disabled"),
    ],
)
def test_prefills_run_without_graphs_in_the_spelling_of_the_version(version: str, flag: str) -> None:
    assert flag in argv(version=version)


def test_prefix_cache_and_chunked_prefill_are_off() -> None:
    assert "--disable-radix-cache" in argv()
    assert argv()[argv().index("--chunked-prefill-size") + 1] == "-1"


def test_without_a_drafter_nothing_speculates() -> None:
    assert "--speculative-algorithm" in argv()
    assert "--speculative-algorithm" not in argv(LiveOptions(Path("python"), "none"))
    assert "--speculative-algorithm" not in argv(drafter=None)


def test_the_users_arguments_come_last_so_that_they_win() -> None:
    assert argv(LiveOptions(Path("python"), extra=("--speculative-eagle-topk=3",)))[-1] == "--speculative-eagle-topk=3"


def test_every_hook_point_matches_its_module_and_no_other() -> None:
    assert matched("model.layers.1.input_layernorm") == ["state:1"]
    assert matched("model.layers.11.input_layernorm") == ["state:11"]
    assert matched("model.layers.11.post_attention_layernorm") == ["mid:11"]
    assert matched("model.norm") == ["norm:12"]
    assert matched("model.embed_tokens") == ["embed"]
    assert matched("logits_processor") == ["logits"]
    assert matched("model.layers.3.self_attn.q_norm") == []
    assert matched("model.layers.3") == []


def test_a_language_model_inside_of_a_wrapper_is_found() -> None:
    assert matched("language_model.model.layers.5.input_layernorm") == ["state:5"]
    assert matched("language_model.logits_processor") == ["logits"]


def test_specs_are_json_and_name_a_factory_that_exists() -> None:
    from importlib import import_module

    for spec in json.loads(json.dumps(hook_specs(Path("spool"), 2, 1))):
        module, _, name = spec["hook_factory"].partition(":")
        assert callable(getattr(import_module(module), name))


def test_the_version_is_found_without_importing_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    assert installed_version(Path(sys.executable)) == "0.5.99"


def test_an_interpreter_that_is_none_is_named() -> None:
    with pytest.raises(HsfError) as caught:
        installed_version(Path("/no/such/python"))
    assert caught.value.code == "not-found"


@pytest.mark.parametrize("name", ["--tp", "--tp-size", "--tensor-parallel-size"])
def test_an_argument_that_gives_another_number_of_ranks_is_found(name: str) -> None:
    assert other_tp((f"{name}=4",), 2) == f"{name}=4"
    assert other_tp(("--x", name, "4"), 2) == name
    assert other_tp((name,), 2) == name
    assert other_tp((f"{name}=2", name, "2", "--tp-sizes=4", "--dp-size=4"), 2) is None
