"""Injections are independent of each other: order, processes and devices change no judgement."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from hsforensics.report.schema import to_json
from tools.accuracy import NOISES, inject_all, part_of, synthetic, task_of
from tools.injections import BY_NAME, FAULTS, Outcome, Task, broken, stackable
from tools.scenes import Scene, load_scene, save_scene


@cache
def small() -> Scene:
    return synthetic(seed=1, layers=8, width=64, lengths=(34, 32, 36))


def tasks() -> list[Task]:
    """Some of everything: healthy, single and stacked, of all noises."""
    alone = [task_of(noise, (fault,)) for noise, fault in zip([*NOISES] * 8, BY_NAME.values(), strict=False)]
    return [task_of("none", ()), *alone[::5], *(task_of("fp8", pair) for pair in list(stackable())[::130])]


def said(outcomes: list[Outcome]) -> list[tuple[str, str, tuple[str, ...], str]]:
    """All of every outcome, but for the second in which it was found."""
    undated = [replace(item.result, provenance=replace(item.result.provenance, created="")) for item in outcomes]
    return [
        (item.scene, item.noise, tuple(fault.name for fault in item.faults), to_json(result))
        for item, result in zip(outcomes, undated, strict=True)
    ]


def test_two_processes_say_what_one_says_in_the_same_order() -> None:
    alone = said(inject_all(small(), tasks(), jobs=1))
    assert said(inject_all(small(), tasks(), jobs=2)) == alone
    assert [row[1:3] for row in alone] == tasks()
    assert len({row[3] for row in alone}) > len(alone) // 2  # not one answer for all


def test_a_judgement_does_not_depend_on_those_before_it() -> None:
    forward = said(inject_all(small(), tasks()))
    assert said(inject_all(small(), tasks()[::-1]))[::-1] == forward


@pytest.mark.parametrize("noise", NOISES)
def test_no_fault_changes_the_scene_itself(noise: str) -> None:
    scene = synthetic(seed=1, layers=8, width=64, lengths=(34, 32, 36))
    for pair in [*((fault,) for fault in BY_NAME.values()), *list(stackable())[::29]]:
        broken(scene, noise, pair)
    for held, fresh in zip(scene.banks, small().banks, strict=True):
        assert all(torch.equal(held[state], fresh[state]) for state in fresh)
    assert all(map(torch.equal, scene.tokens, small().tokens))


def test_what_fails_in_a_process_is_raised_here() -> None:
    with pytest.raises(KeyError, match="no such noise"):
        inject_all(small(), [*tasks()[:2], ("no such noise", ())], jobs=2)


def test_a_scene_travels_whole(tmp_path: Path) -> None:
    scene = replace(small(), device="cuda:0")
    save_scene(scene, tmp_path / "scene.pt")
    back = load_scene(tmp_path / "scene.pt")
    assert (back.name, back.layers, back.truth, back.device) == (scene.name, scene.layers, scene.truth, "cuda:0")
    assert [list(bank) for bank in back.banks] == [list(bank) for bank in scene.banks]  # by depth, as captures are
    for held, sent in zip(back.banks, scene.banks, strict=True):
        assert all(torch.equal(held[state], sent[state]) and held[state].dtype == sent[state].dtype for state in sent)
    assert all(map(torch.equal, back.tokens, scene.tokens))


def test_a_part_says_where_states_and_distances_were_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = inject_all(small(), [task_of("none", ())])
    there = replace(one.result, provenance=replace(one.result.provenance, device="cuda:7"))

    def judged_there(_scene: Scene, asked: list[Task], **_how: object) -> list[Outcome]:
        return [replace(one, noise=n, faults=tuple(BY_NAME[x] for x in names), result=there) for n, names in asked]

    monkeypatch.setattr("tools.accuracy.inject_all", judged_there)
    part = part_of(replace(small(), device="somewhere"), "cpu", every=200)
    assert (part.states_on, part.distances_on) == ("somewhere", "cuda:7")  # by the results, not by what was asked
    pairs = len(list(stackable())[::200])
    assert part.judged == len(NOISES) * (1 + len(BY_NAME)) + 2 * pairs
    assert part.table.count("\n") == 2 + len(BY_NAME)
    assert len(part.wrong) == len(NOISES) * len(FAULTS) + 2 * pairs  # a false all-clear for every fault


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_two_processes_on_one_gpu_judge_as_a_cpu_does() -> None:
    there = inject_all(small(), tasks(), device="cuda", jobs=2)
    assert {item.result.provenance.device for item in there} == {"cuda:0"}
    here = inject_all(small(), tasks())
    single = [place for place, task in enumerate(tasks()) if len(task[1]) < 2]
    assert [there[place].word for place in single] == [here[place].word for place in single]
    assert [item.result.verdict for item in there] == [item.result.verdict for item in here]


def test_every_fault_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) >= len(FAULTS)
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
