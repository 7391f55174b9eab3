"""A path of the wrong kind, wherever it is given, is named for what it is, with the call that was meant."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from hsforensics.errors import HsfError
from hsforensics.flows.capture import capture_reference
from hsforensics.flows.capture_live import capture_live
from hsforensics.flows.compare import compare
from hsforensics.flows.contract import write_contract
from hsforensics.flows.draft_eval import draft_eval
from hsforensics.flows.fingerprint import fingerprint
from hsforensics.flows.path_kinds import Kind, kind_of
from hsforensics.flows.recognise import COMPARE_CALL, DRAFT_EVAL_CALL, Call, explained
from hsforensics.flows.verify_contract import verify_contract
from hsforensics.report.schema import to_json
from hsforensics.states import POSTNORM
from tests.incident import report, write_config
from tests.world import HIDDEN, make_world, write_bank, write_dump, write_target

KINDS: dict[str, Kind] = {
    "dumps": "dumps",
    "bank": "capture",
    "dumps.fp": "fingerprint of dumps",
    "bank.fp": "fingerprint of a capture",
    "target": "target",
    "drafter": "drafter",
    "report.json": "report",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each kind, and a few things that are none."""
    root, world = tmp_path_factory.mktemp("kinds"), make_world()
    dumps = write_dump(world, root / "dumps", (3, 6, 9, POSTNORM))
    fingerprint(dumps, root / "dumps.fp")
    for name in ("bank", "captures/first", "captures/second"):
        write_bank(world, root / name)
    fingerprint(root / "bank", root / "bank.fp")
    write_target(world, root / "target")
    (root / "drafter").mkdir()
    write_config(root / "drafter", hidden_size=HIDDEN)
    save_file({"fc.weight": torch.zeros(2, 3 * HIDDEN)}, root / "drafter" / "model.safetensors")
    (root / "report.json").write_text(to_json(report()))
    (root / "empty").mkdir()
    (root / "notes.json").write_text('{"kind": "rules"}')
    return root


@pytest.fixture(autouse=True)
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_told_by_its_files(name: str) -> None:
    assert kind_of(Path(name)) == KINDS[name]


@pytest.mark.parametrize("name", ["empty", "captures", "notes.json", "nowhere", "bank/manifest.json"])
def test_what_is_none_of_them_is_none(name: str) -> None:
    assert kind_of(Path(name)) is None


@pytest.mark.parametrize(
    ("config", "weights", "kind"),
    [
        ({"architectures": ["LlamaForCausalLMEagle3"]}, {}, "drafter"),
        ({"architectures": ["DFlashDraftModel"]}, {}, "drafter"),
        ({"eagle_aux_hidden_state_layer_ids": [1]}, {}, "drafter"),
        ({"draft_vocab_size": 9, "num_hidden_layers": 1, "hidden_size": 4, "vocab_size": 9}, {}, "drafter"),
        ({"num_hidden_layers": 1, "hidden_size": 4, "vocab_size": 9}, {"fc.weight": torch.zeros(1, 3)}, "drafter"),
        ({"num_hidden_layers": 1, "hidden_size": 4, "vocab_size": 9}, {"norm.weight": torch.ones(4)}, "target"),
        ({"num_hidden_layers": "x"}, {"norm.weight": torch.ones(4)}, None),
    ],
)
def test_drafters_and_targets_are_told_apart(
    tmp_path: Path, config: dict[str, Any], weights: dict[str, torch.Tensor], kind: Kind | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    if weights:
        save_file(weights, tmp_path / "model.safetensors")
    assert kind_of(tmp_path) == kind


def _refused(flow: Callable[..., object], *paths: str, **options: Any) -> HsfError:
    named = {name: Path(value) if isinstance(value, str) else value for name, value in options.items()}
    with pytest.raises(HsfError) as caught:
        flow(*map(Path, paths), **named)
    return caught.value


COMPARED = [
    (("bank", "dumps"), {}, "hsforensics compare dumps bank"),
    (("bank.fp", "dumps.fp"), {}, "hsforensics compare dumps.fp bank.fp"),
    (("target", "bank"), {}, "hsforensics compare DUMPS bank --target target"),
    (("dumps", "target"), {}, "hsforensics compare dumps --target target"),
    (("dumps", "drafter"), {}, "hsforensics compare dumps CAPTURE --draft drafter"),
    (("dumps", "dumps"), {}, "hsforensics capture dumps --target MODEL --out BANK"),
    (("dumps", "dumps"), {"target": "target"}, "hsforensics capture dumps --target target --out BANK"),
    (("dumps",), {"target": "drafter"}, "hsforensics compare dumps CAPTURE --draft drafter"),
    (("dumps", "bank"), {"target": "drafter"}, "hsforensics compare dumps bank --draft drafter"),
    (("dumps", "bank"), {"target": "drafter", "drafter": "target"}, "hsforensics compare dumps bank --target target"),
    (("dumps", "report.json"), {}, "hsforensics fix-config DRAFTER --report report.json"),
    (("report.json", "bank"), {}, "hsforensics fix-config DRAFTER --report report.json"),
    (("dumps", "captures"), {}, "hsforensics compare dumps captures/first"),
    (("captures", "dumps"), {}, "hsforensics compare dumps captures/first"),
    (("dumps", "bonk"), {}, "hsforensics compare dumps bank"),
    (("dumpz", "bank"), {}, "hsforensics compare dumps bank"),
    (("dumps", "empty"), {}, "hsforensics capture dumps --target MODEL --out BANK"),
    (("dumps", "notes.json"), {}, "hsforensics capture dumps --target MODEL --out BANK"),
]


@pytest.mark.parametrize(("paths", "options", "command"), COMPARED)
def test_compare_names_the_call_that_was_meant(paths: tuple[str, ...], options: dict[str, str], command: str) -> None:
    error = _refused(compare, *paths, **options)
    assert command in error.remedy
    assert "capture again" not in error.remedy


OTHERS: list[tuple[Callable[..., object], tuple[str, ...], dict[str, Any], str]] = [
    (fingerprint, ("target",), {"out": "x.fp"}, "hsforensics fingerprint DUMPS --out x.fp"),
    (fingerprint, ("captures",), {"out": "x.fp"}, "hsforensics fingerprint captures/first --out x.fp"),
    (fingerprint, ("dumps.fp",), {"out": "x.fp"}, "hsforensics compare dumps.fp CAPTURE"),
    (capture_reference, ("bank", "target"), {"out": "x"}, "hsforensics compare DUMPS bank"),
    (capture_reference, ("target", "dumps"), {"out": "x"}, "hsforensics capture dumps --target target --out x"),
    (
        capture_live,
        ("target", "dumps", "drafter"),
        {"out": "x"},
        "hsforensics capture --engine sglang dumps --target target --draft drafter --out x",
    ),
    (
        draft_eval,
        ("target", "drafter", "bank"),
        {"wirings": ((3, 6, 9), (0, 3, 6))},
        "hsforensics draft-eval drafter --target target --data bank --wiring 3,6,9 --wiring 0,3,6",
    ),
    (
        draft_eval,
        ("drafter", "target", "dumps.fp"),
        {"channels": ((0, 1, 2),)},
        "hsforensics compare dumps.fp CAPTURE",
    ),
    (verify_contract, ("bank",), {"capture": "drafter"}, "hsforensics contract verify drafter bank"),
    (
        write_contract,
        ("drafter",),
        {"wiring": (3, 6, 9), "dumps": "target", "target": "dumps"},
        "hsforensics contract write drafter --target target --dumps dumps --wiring 3,6,9",
    ),
]


@pytest.mark.parametrize(("flow", "paths", "options", "command"), OTHERS)
def test_the_other_commands_do_so_too(
    flow: Callable[..., object], paths: tuple[str, ...], options: dict[str, Any], command: str
) -> None:
    error = _refused(flow, *paths, **options)
    assert command in error.remedy
    assert error.code == "usage"


@pytest.mark.parametrize(
    ("call", "order"),
    [
        *((COMPARE_CALL, order) for order in permutations(("dumps", "bank", "target", "drafter"))),
        *((DRAFT_EVAL_CALL, order) for order in permutations(("drafter", "target", "bank"))),
    ],
)
def test_paths_in_any_order_are_put_where_they_belong(call: Call, order: tuple[str, ...]) -> None:
    given = dict(zip((place.argument for place in call.places), map(Path, order), strict=True))
    right = [place for place in call.places if KINDS[str(given[place.argument])] in place.takes]
    wrong = next((place for place in call.places if place not in right), None)
    if wrong is None:
        return
    found = explained(HsfError("not-found", given[wrong.argument], "no", "nothing"), call, given)
    words = shlex.split(found.remedy.partition("did you mean: ")[2].removeprefix(call.words))
    paths = [word for word in words if not word.startswith("--")]
    assert [KINDS[path] in place.takes for path, place in zip(paths, call.places, strict=True)] == [True] * len(paths)
    assert sorted(paths) == sorted(order)


def test_a_path_of_the_right_kind_keeps_its_own_refusal(tmp_path: Path) -> None:
    bank = write_bank(make_world(), tmp_path / "bank")
    next(bank.glob("request-*")).unlink()
    error = _refused(compare, "dumps", str(bank))
    assert error.code == "capture-unfinished"
    assert "missing" in error.message


def test_paths_with_spaces_are_quoted(tmp_path: Path) -> None:
    world = make_world()
    dumps = write_dump(world, tmp_path / "my dumps", (3, 6, 9, POSTNORM))
    bank = write_bank(world, tmp_path / "my bank")
    words = shlex.split(_refused(compare, str(bank), str(dumps)).remedy.partition(": ")[2])
    assert words == ["hsforensics", "compare", str(dumps), str(bank)]
