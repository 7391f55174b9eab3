"""The loop closed on real SGLang: fix-config writes, the engine serves, and values say that the states are right.

Two ways. For many wirings, the ids that ``fix-config`` wrote are read back and given to the setter of the engine's own
model, in one process. For one class each, a whole engine starts on the very directory that ``fix-config`` wrote, and
reads its config with its own code.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hsforensics.drafter.config import read_drafter_config
from hsforensics.errors import HsfError
from hsforensics.flows.contract import write_contract
from hsforensics.flows.fix_config import fix_config
from hsforensics.flows.verify_contract import verify_contract
from hsforensics.rules.introspect.read import introspect
from hsforensics.rules.lookup import EngineVersion
from hsforensics.rules.rows import NESTED_IDS
from tests.sglang.models import LAYERS, TRAINED
from tests.sglang.rig import OLD, Outcome, Workshop, capture_server, python_of, sweep

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(600)]

CASES = (
    *((name, "0.5.20") for name in ("LlamaForCausalLM", "GptOssForCausalLM", "Qwen3MoeForCausalLM")),
    *((name, "0.5.23") for name in ("LlamaForCausalLM", "GptOssForCausalLM", "Qwen3MoeForCausalLM")),
    *(("DeepseekV3ForCausalLM", version) for version in ("0.5.20", "0.5.23", OLD)),
)
WIRINGS = (TRAINED, (1, 3, 5), (3, 5, 6), (0, 2, 4), (4, 6, LAYERS))
"""Trained wirings to be asked for; an engine that cannot serve one must be refused, not tried."""
REFUSED = {
    "LlamaForCausalLM 0.5.20": {(0, 2, 4), (4, 6, LAYERS)},
    "LlamaForCausalLM 0.5.23": {(4, 6, LAYERS)},
    "Qwen3MoeForCausalLM 0.5.20": {(4, 6, LAYERS)},
    "Qwen3MoeForCausalLM 0.5.23": {(4, 6, LAYERS)},
    "DeepseekV3ForCausalLM 0.5.20": {(4, 6, LAYERS)},
    "DeepseekV3ForCausalLM 0.5.23": {(4, 6, LAYERS)},
    f"DeepseekV3ForCausalLM {OLD}": {(0, 2, 4), (4, 6, LAYERS)},
}


WHOLE = (
    ("LlamaForCausalLM", "0.5.20"),
    ("DeepseekV3ForCausalLM", "0.5.23"),
    ("GptOssForCausalLM", "0.5.23"),
    ("Qwen3MoeForCausalLM", "0.5.20"),
)
"""A whole engine for each of these, on the directory that was written."""


def _written(shop: Workshop, folder: Path, target: Path, version: str, wiring: tuple[int, ...]) -> Path | None:
    """A drafter with the incident's wrong fix, repaired for one engine version; ``None`` when that is refused."""
    drafter = folder / f"{target.name}-{version}-{'.'.join(map(str, wiring))}"
    shutil.copytree(shop.drafter((-1, 2, 6)), drafter)
    try:
        done = fix_config(drafter, engine=f"sglang=={version}", wiring=wiring, target=target, write=True)
    except HsfError as error:
        assert error.code == "not-expressible"  # noqa: PT017 (a refusal is one of two answers)
        return None
    assert done.after.states == wiring
    return drafter


@pytest.mark.parametrize(("architecture", "version"), CASES, ids=" ".join)
def test_the_ids_that_fix_config_writes_make_the_engines_model_capture_the_wiring(
    shop: Workshop, tmp_path: Path, architecture: str, version: str
) -> None:
    target = shop.target(architecture, narrow=version == OLD)
    drafters = {wiring: _written(shop, tmp_path, target, version, wiring) for wiring in WIRINGS}
    refused = {wiring for wiring, drafter in drafters.items() if drafter is None}
    assert refused == REFUSED.get(f"{architecture} {version}", set())
    asked = {wiring: read_drafter_config(drafter) for wiring, drafter in drafters.items() if drafter}
    lists = [tuple(config.nested_ids or ()) for config in asked.values()]
    outcomes = dict(zip(asked, sweep(shop, architecture, version, lists), strict=True))
    for wiring, outcome in outcomes.items():
        assert isinstance(outcome, Outcome), outcome
        assert outcome.truth == wiring
        assert outcome.compared.served_wiring == wiring
        assert outcome.compared.verdict == ("aligned" if wiring == TRAINED else "misaligned")
        again = fix_config(
            asked[wiring].path.parent, engine=f"sglang=={version}", wiring=wiring, target=target, write=True
        )
        assert (again.edits, again.pending) == ((), False)
    assert asked[TRAINED].get(NESTED_IDS) is not None
    _check_contract(shop, asked[TRAINED].path.parent, target, version, outcomes)


def _check_contract(
    shop: Workshop, drafter: Path, target: Path, version: str, outcomes: dict[tuple[int, ...], Outcome | str]
) -> None:
    """The contract of the repaired drafter is kept by its own capture, and broken by every other one."""
    dump = shop.own_dump(target, []) if version == OLD else shop.dump(target)
    write_contract(drafter, wiring=TRAINED, target=target, dumps=dump)
    for wiring, outcome in outcomes.items():
        assert isinstance(outcome, Outcome)
        checked = verify_contract(drafter, engines=(f"sglang=={version}",), capture=Path(outcome.captured.path))
        assert checked.verdict == ("kept" if wiring == TRAINED else "broken"), wiring


@pytest.mark.parametrize(("architecture", "version"), WHOLE, ids=" ".join)
def test_a_whole_engine_serves_the_trained_states_from_the_directory_that_was_written(
    shop: Workshop, tmp_path: Path, architecture: str, version: str
) -> None:
    drafter = _written(shop, tmp_path, shop.target(architecture), version, TRAINED)
    assert drafter is not None
    outcome = capture_server(shop, architecture, version, None, written=drafter, new_tokens=8)
    origin = outcome.captured.provenance
    assert (origin.engine_version, origin.drafter_path) == (version, str(drafter))
    assert outcome.truth == TRAINED
    assert (outcome.compared.served_wiring, outcome.compared.verdict) == (TRAINED, "aligned")


@pytest.mark.parametrize("version", ["0.5.20", "0.5.23", OLD])
def test_the_installed_code_says_what_the_tables_say(shop: Workshop, version: str) -> None:
    packages = python_of(version).parent.parent if version != OLD else None
    (place,) = packages.glob("lib/python3*/site-packages") if packages else [shop_cache() / f"sglang-{OLD}"]
    for architecture in ("LlamaForCausalLM", "DeepseekV3ForCausalLM", "GptOssForCausalLM", "Qwen3MoeForCausalLM"):
        seen = introspect(str(place), architecture, "eagle3", EngineVersion("sglang", version))
        assert seen.agrees, (architecture, seen.rule)


def shop_cache() -> Path:
    """Where the environments lie."""
    from tests.sglang.rig import CACHE

    return CACHE
