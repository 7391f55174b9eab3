"""Files of strangers cannot put a word into a command: a shell reads exactly what was meant, or a placeholder."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hsforensics.drafter.contract import Contract, ContractTarget, write_contract_file
from hsforensics.drafter.write import refuse_unsafe
from hsforensics.errors import HsfError
from hsforensics.findings import CATALOGUE, PLACEHOLDERS, fill
from hsforensics.flows.compare import compare
from hsforensics.flows.contract import write_contract
from hsforensics.flows.known import engine_words, known_paths, known_words
from hsforensics.flows.verify_contract import verify_contract
from hsforensics.results import CompareResult, Provenance
from hsforensics.states import POSTNORM, Finding, is_state
from tests.incident import LAYERS, TRAINED, write_config
from tests.world import HIDDEN, make_world, write_bank, write_dump

HOSTILE = (
    'x DRAFTER $(touch PWNED)" #',
    "DRAFTER",
    "a DUMPS b",
    "'; touch PWNED; '",
    "`touch PWNED`",
    "-rf",
    "--write",
    "x\ntouch PWNED",
    "x\ttouch",
    "\x1b[2J",
    "a\u202eb",
    "a\udcffb",
    "",
)
TEMPLATES = sorted({command for kind in CATALOGUE.values() for command in kind.commands})


# -- filling -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("value", HOSTILE)
def test_every_placeholder_is_one_word_however_often_a_command_is_filled(template: str, value: str) -> None:
    """Filled at once, twice with one half of the words each, and again: always the same words."""
    words = dict.fromkeys(PLACEHOLDERS, value)
    expected = [value if word in PLACEHOLDERS and value.isprintable() else word for word in shlex.split(template)]
    whole = fill(template, words)
    assert shlex.split(whole) == expected
    for half in (PLACEHOLDERS[::2], PLACEHOLDERS[1::2]):
        first = fill(template, {word: value for word in half})
        assert fill(fill(first, words), dict.fromkeys(PLACEHOLDERS, "other")) == whole


def test_a_value_that_is_a_placeholder_is_never_filled() -> None:
    first = fill("hsforensics rules --architecture CLASS --draft DRAFTER", {"CLASS": "DRAFTER"})
    assert fill(first, {"DRAFTER": "/d", "CLASS": "Other"}) == "hsforensics rules --architecture DRAFTER --draft /d"


@pytest.mark.parametrize("value", [*HOSTILE, "Class Name", "1Class", "C" * 300])
def test_only_names_of_classes_and_states_are_words(value: str) -> None:
    known = engine_words(None, value, None, (3, value))
    assert known == ({"CLASS": value} if value == "DRAFTER" else {})


# -- paths -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["-x", "--engine-python=x", "-"])
def test_a_path_that_begins_with_a_dash_is_no_option(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).mkdir()
    words = known_paths(DUMPS=Path("./") / name, MODEL="./" + name)
    assert shlex.split(fill("hsforensics capture DUMPS --target MODEL", words)) == (
        ["hsforensics", "capture", f"./{name}", "--target", f"./{name}"]
    )


@pytest.mark.parametrize("name", ["a\tb", "a\x1b[31mb", "a\u202eb", "a\nb", "a\u2028b"])
def test_a_path_that_no_terminal_shows_as_it_is_stays_a_placeholder(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    assert fill("capture DUMPS --x", known_paths(DUMPS=tmp_path / name)) == "capture DUMPS --x"
    linked = tmp_path / name / "link"
    linked.symlink_to(tmp_path)
    with pytest.raises(HsfError) as refused:
        refuse_unsafe(linked)
    assert refused.value.remedy.endswith("cp -rL DRAFTER DRAFTER-COPY")
    write_config(tmp_path / name)
    with pytest.raises(HsfError) as missing:
        verify_contract(tmp_path / name)
    assert missing.value.remedy.endswith("contract write DRAFTER --wiring STATES")


@pytest.mark.parametrize("path", ["x" * 300, "a\x00b", "/proc/1/cwd/models/kimi", "nowhere", "\udcff"])
def test_a_path_that_cannot_be_looked_up_is_not_there(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(self))

    assert known_paths(MODEL=path) == {}
    monkeypatch.setattr(Path, "exists", refused)
    assert known_paths(MODEL="/elsewhere/models/kimi") == {}


# -- contracts ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def drafter(tmp_path: Path) -> Path:
    path = tmp_path / "user's $(touch PWNED)" / "drafter"
    path.mkdir(parents=True)
    write_config(path)
    write_contract(path, wiring=TRAINED, layers=LAYERS)
    return path


def _edit(drafter: Path, place: tuple[str, ...], value: object) -> None:
    file = drafter / "hsforensics-contract.json"
    data = json.loads(file.read_text())
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    file.write_text(json.dumps(data))


NO_CLASSES = [(("target", key), value) for key in ("wrapper", "inner") for value in HOSTILE if value != "DRAFTER"]
NO_STATES = [
    (("states",), [3, state, 59])
    for state in (*HOSTILE, "3", "mid:03", "mid:x", "mid:" + "9" * 5000, "Postnorm", "mid:61", -1, 62, True, 3.0, None)
]
NO_SIZES = [(("target", "layers"), value) for value in (0, -1, 10**8, 10**30, "61", True, 61.0)]


@pytest.mark.parametrize(("place", "value"), [*NO_CLASSES, *NO_STATES, *NO_SIZES, (("states",), [])])
def test_a_contract_with_strange_words_is_refused(drafter: Path, place: tuple[str, ...], value: object) -> None:
    _edit(drafter, place, value)
    with pytest.raises(HsfError) as refused:
        verify_contract(drafter, engines="vllm==0.33.0", architecture="LlamaForCausalLM")
    assert refused.value.code == "contract-unreadable"
    command = refused.value.remedy.partition(": ")[2]
    assert shlex.split(command) == ["hsforensics", "contract", "write", str(drafter), "--wiring", "STATES"]


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    sound = Contract(TRAINED, "eagle3", ContractTarget("A", "A", None, LAYERS, 8), None, "none", {}, None)
    for strange in (
        replace(sound, states=(3, 62)),
        replace(sound, target=replace(sound.target, wrapper="a b")),
        replace(sound, target=replace(sound.target, layers=0)),
    ):
        with pytest.raises(HsfError) as refused:
            write_contract_file(tmp_path / "c.json", strange)
        assert refused.value.code == "usage"
    assert not (tmp_path / "c.json").exists()


def test_a_contract_fills_class_and_drafter_at_once(drafter: Path) -> None:
    """The class is called like a placeholder, and the drafter's path is a command to a shell."""
    _edit(drafter, ("target", "wrapper"), "DRAFTER")
    (found,) = (item for item in _verified(drafter) if item.code == "config-serves-other")
    (command,) = found.commands
    assert tuple(shlex.split(command)) == (
        *("hsforensics", "fix-config", str(drafter), "--wiring", "3,31,59", "--engine", "vllm==0.33.0"),
        *("--architecture", "DRAFTER", "--layers", "61"),
    )


def _verified(drafter: Path) -> tuple[Finding, ...]:
    return verify_contract(drafter, engines="vllm==0.33.0").findings


# -- manifests ---------------------------------------------------------------------------------------------------------

FIELDS = ("target_wrapper", "target_inner", "target_path", "device", "producer", "dtype")
IN_JSON = [value for value in HOSTILE if value and "\udcff" not in value]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", IN_JSON)
def test_no_field_of_a_manifest_adds_a_word_to_a_command(field: str, value: str, tmp_path: Path) -> None:
    world, home = make_world(), tmp_path / "user's"
    dump = write_dump(world, home / "dump", (3, 6, 9, POSTNORM))
    bank = write_bank(world, tmp_path / "bank")
    manifest = json.loads((bank / "manifest.json").read_text())
    (bank / "manifest.json").write_text(json.dumps(manifest | {field: value}))
    drafter = home / "drafter"
    drafter.mkdir()
    write_config(drafter, hidden_size=HIDDEN, eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 4, 7]})
    engine = "tensorrt-llm==1.0.0"
    result = compare(dump, bank, drafter=drafter, engine=engine)
    assert _words(result) <= {str(dump), str(bank), str(drafter), engine, "12", "3,6,9", *_fixed(value)}


def _fixed(value: str) -> set[str]:
    """Words of templates, and the class where the value may be one."""
    classes = {"LlamaForCausalLM", value} if value == "DRAFTER" else {"LlamaForCausalLM"}
    return {word for template in TEMPLATES for word in shlex.split(template)} | classes


def _words(result: CompareResult) -> set[str]:
    commands: list[Any] = [command for item in result.findings for command in item.commands]
    assert commands
    return {word for command in commands for word in shlex.split(command)}


@pytest.mark.parametrize("value", HOSTILE)
def test_no_field_of_a_report_adds_a_word_to_a_command(value: str, tmp_path: Path) -> None:
    origin = Provenance(
        *("0", (), ""),
        target_path=value,
        target_wrapper=value,
        layers=61,
        drafter_path=str(tmp_path),
        capture_path=value,
        engine="sglang",
        engine_version=value,
    )
    words = known_words(origin)
    for template in TEMPLATES:
        split = shlex.split(fill(template, words))
        assert len(split) == len(shlex.split(template))
        assert set(split) <= {*shlex.split(template), str(tmp_path), "61", f"sglang=={value}", *({value} & {"DRAFTER"})}


# -- the vocabulary ----------------------------------------------------------------------------------------------------


def test_states_in_files_are_written_in_one_way_only() -> None:
    assert all(is_state(state, 12) for state in (0, 12, "postnorm", "mid:0", "mid:11"))
    assert not any(is_state(state, 12) for state in (13, -1, True, 3.0, None, "3", "mid:12", "mid:03", "mid:٣", "x"))
    assert not is_state("mid:" + "9" * 5000)
