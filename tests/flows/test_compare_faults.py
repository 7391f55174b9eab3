"""Injected faults are named, singly and stacked; healthy data raises no alarm; noise gives ambiguity, never green."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsforensics.results import CompareResult
from tests.real import smollm2
from tools.accuracy import license_texts, wrong
from tools.injections import FAULTS, HARMLESS, Fault, inject, stackable
from tools.scenes import NOISES, Scene, Sides, healthy, inputs_of, judge, real, synthetic


@cache
def scene() -> Scene:
    return synthetic()


@cache
def small() -> Scene:
    return synthetic(seed=1, layers=8, width=64, lengths=(30, 24, 36))


@pytest.mark.parametrize("noise", NOISES)
def test_healthy_data_is_green_under_every_noise_below_the_gap(noise: str) -> None:
    result = judge(healthy(scene(), NOISES[noise]))
    assert result.verdict == "aligned"
    assert {item.severity for item in result.findings} == {"info"}
    right = next(item for item in result.findings if item.code == "wiring-right")
    assert "wiring is right" in right.message
    assert "vocabulary map" in right.remedy  # where else to look


@pytest.mark.parametrize("noise", ["bf16", "int4"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_is_named(fault: Fault, noise: str) -> None:
    outcome = inject(scene(), noise, (fault,))
    assert outcome.word == "named", [item.code for item in outcome.result.findings]


@pytest.mark.parametrize("noise", ["bf16", "fp8"])
@pytest.mark.parametrize("fault", HARMLESS, ids=lambda fault: fault.name)
def test_what_is_harmless_stays_green(fault: Fault, noise: str) -> None:
    outcome = inject(scene(), noise, (fault,))
    assert (outcome.word, wrong([outcome])) == ("green", [])
    if noise == "bf16":  # coarser noise hides drift
        assert outcome.names(fault)


@pytest.mark.parametrize("pair", list(stackable())[::17], ids=lambda pair: " + ".join(item.name for item in pair))
def test_of_two_faults_at_least_one_is_named_and_none_hides_the_other_from_the_verdict(
    pair: tuple[Fault, Fault],
) -> None:
    outcome = inject(scene(), "bf16", pair)
    assert not outcome.green
    assert any(map(outcome.names, pair))


@pytest.mark.parametrize("noise", [0.2, 0.3, 0.5, 0.9])
def test_noise_as_large_as_the_gap_never_gives_green_nor_a_wrong_wiring(noise: float) -> None:
    generator = torch.Generator().manual_seed(3)

    def disturb(values: torch.Tensor) -> torch.Tensor:
        wide = values.float()
        return wide + noise * wide.norm(dim=1, keepdim=True) * torch.randn(wide.shape, generator=generator) / 96**0.5

    result = judge(healthy(scene(), disturb))
    assert result.verdict == "undecided"
    assert result.trained_wiring is None
    assert {item.explanation for item in result.channels} == {None}


def test_drift_that_grows_with_depth_is_numerics_and_not_wiring() -> None:
    sides = healthy(scene(), NOISES["bf16"])
    generator = torch.Generator().manual_seed(3)
    for values in sides.dump:
        for slot, size in enumerate((0.02, 0.08, 0.16)):
            wide = values[slot].float()
            step = torch.randn(wide.shape, generator=generator) / 96**0.5
            values[slot] = wide + size * wide.norm(dim=1, keepdim=True) * step
    result = judge(sides)
    drift = [item for item in result.findings if item.code == "numeric-drift"]
    assert [item.where for item in drift] == ["dump"]
    assert result.verdict != "misaligned"
    assert not [item for item in result.findings if item.severity == "error"]


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_the_capture_says_where_its_states_were_computed(device: str) -> None:
    made_there = replace(small(), device=device)
    bank = inputs_of(healthy(made_there, NOISES["none"])).bank
    assert bank is not None
    assert bank.manifest.device == device


def test_both_sides_rotated_alike_agree_although_no_state_fits() -> None:
    sides = healthy(scene(), NOISES["none"])
    turn = torch.linalg.qr(torch.randn(96, 96, generator=torch.Generator().manual_seed(2))).Q
    for dump, served in zip(sides.dump, sides.served, strict=True):
        for slot in range(3):
            dump[slot], served[slot] = dump[slot].float() @ turn, served[slot].float() @ turn
    result = judge(sides)
    codes = {item.code for item in result.findings}
    assert result.verdict == "undecided"
    assert {"counterparts-agree", "rotated"} <= codes


def test_groups_of_a_mixed_set_are_listed_with_their_files() -> None:
    mixed = next(fault for fault in FAULTS if fault.codes == ("set-mixed",))
    result = inject(scene(), "bf16", (mixed,)).result
    assert [(group.samples, group.states[:3]) for group in result.groups] == [(2, (3, 6, 9)), (1, (4, 7, 10))]
    assert result.groups[1].names == ("data_2",)


@pytest.fixture(scope="module")
def real_scene() -> Scene:
    return real(smollm2(), license_texts()[:3], rows=64)


@pytest.mark.real
@pytest.mark.parametrize("noise", ["bf16", "fp16", "fp8"])
def test_a_real_model_raises_no_false_alarm(real_scene: Scene, noise: str) -> None:
    outcome = inject(real_scene, noise, ())
    assert (outcome.word, wrong([outcome])) == ("green", [])
    assert outcome.result.trained_wiring == real_scene.truth


@pytest.mark.real
@pytest.mark.parametrize("fault", FAULTS[:9:2] + FAULTS[9::4], ids=lambda fault: fault.name)
def test_faults_in_states_of_a_real_model_are_named(real_scene: Scene, fault: Fault) -> None:
    assert inject(real_scene, "fp8", (fault,)).word == "named"


# -- laws: what must not matter ---------------------------------------------------------------------------------

OFFSETS = {"right": (0, 0, 0), "deeper": (1, 1, 1), "mixed": (0, 1, -1)}


def sides_of(kind: str) -> Sides:
    sides = healthy(small(), NOISES["none"])
    for slot, offset in enumerate(OFFSETS[kind]):
        state = small().truth[slot] + offset
        sides.serve(slot, lambda bank, state=state: bank[state].clone())  # type: ignore[misc]
    return sides


def said(result: CompareResult) -> tuple[object, ...]:
    return result.verdict, result.trained_wiring, result.served_wiring, result.offsets


def reordered(sides: Sides, order: list[int]) -> Sides:
    old = sides.scene
    turned = Scene(old.name, old.layers, old.truth, *(tuple(v[i] for i in order) for v in (old.tokens, old.banks)))
    pick = lambda values: [values[i] for i in order]  # noqa: E731
    return Sides(turned, pick(sides.dump), pick(sides.served), pick(sides.tokens), pick(sides.masks))


@settings(deadline=None, max_examples=12)
@given(st.permutations(range(3)), st.sampled_from(sorted(OFFSETS)))
def test_the_order_of_files_does_not_matter(order: list[int], kind: str) -> None:
    assert said(judge(reordered(sides_of(kind), order))) == said(judge(sides_of(kind)))


@settings(deadline=None, max_examples=12)
@given(st.sampled_from([torch.bfloat16, torch.float16, torch.float32, torch.float64]), st.sampled_from(sorted(OFFSETS)))
def test_the_dtype_of_the_dump_does_not_matter(dtype: torch.dtype, kind: str) -> None:
    sides = sides_of(kind)
    for values in sides.dump:
        values[:] = [channel.to(dtype) for channel in values]
    assert said(judge(sides)) == said(judge(sides_of(kind)))


def halved(sides: Sides, places: list[int]) -> Sides:
    """Every sample and its request cut in two files, each with its own token ids."""
    old = sides.scene
    cuts = [slice(None, place) for place in places], [slice(place, None) for place in places]

    def parts(values: Sequence[list[torch.Tensor]]) -> list[list[torch.Tensor]]:
        return [[v[cut] for v in sample] for cut_all in cuts for sample, cut in zip(values, cut_all, strict=True)]

    tokens = [ids[cut] for cut_all in cuts for ids, cut in zip(sides.tokens, cut_all, strict=True)]
    banks = tuple(
        {state: rows[cut] for state, rows in bank.items()}
        for cut_all in cuts
        for bank, cut in zip(old.banks, cut_all, strict=True)
    )
    split = Scene(old.name, old.layers, old.truth, tuple(tokens), banks)
    return Sides(split, parts(sides.dump), parts(sides.served), tokens, [None] * len(tokens))


@settings(deadline=None, max_examples=12)
@given(st.lists(st.integers(6, 18), min_size=3, max_size=3), st.sampled_from(sorted(OFFSETS)))
def test_cutting_every_sample_into_two_files_does_not_matter(places: list[int], kind: str) -> None:
    split = halved(sides_of(kind), places)
    assert [len(ids) for ids in split.tokens[:3]] == places
    assert sum(map(len, split.tokens)) == sum(map(len, small().tokens))
    assert said(judge(split)) == said(judge(sides_of(kind)))


@settings(deadline=None, max_examples=12)
@given(st.floats(1e-3, 1e3), st.sampled_from(sorted(OFFSETS)))
def test_a_common_scale_of_bank_and_channels_does_not_matter(scale: float, kind: str) -> None:
    sides = sides_of(kind)
    old = sides.scene
    banks = tuple({state: values.float() * scale for state, values in bank.items()} for bank in old.banks)
    scaled = Scene(old.name, old.layers, old.truth, old.tokens, banks)
    multiply: Callable[[list[torch.Tensor]], list[torch.Tensor]] = lambda vs: [v.float() * scale for v in vs]  # noqa: E731
    both = Sides(scaled, list(map(multiply, sides.dump)), list(map(multiply, sides.served)), sides.tokens, sides.masks)
    assert said(judge(both)) == said(judge(sides_of(kind)))


@settings(deadline=None, max_examples=12)
@given(st.permutations(range(3)))
def test_the_order_of_channels_moves_with_the_wiring(order: list[int]) -> None:
    sides = sides_of("right")
    for values in sides.dump:
        values[:3] = [values[slot] for slot in order]
    result = judge(sides)
    assert result.trained_wiring == tuple(small().truth[slot] for slot in order)
    assert result.verdict == ("aligned" if order == [0, 1, 2] else "misaligned")
    assert any(item.code == "channel-order" for item in result.findings) == (order != [0, 1, 2])


def test_a_slot_that_is_ambiguous_but_certainly_another_state_makes_the_pair_misaligned() -> None:
    """Strong noise hides which neighbour was trained, not that the embedding is served instead."""
    sides = healthy(scene(), NOISES["bf16"])
    generator = torch.Generator().manual_seed(3)
    for values in sides.dump:
        for slot in range(3):
            wide = values[slot].float()
            step = torch.randn(wide.shape, generator=generator) / 96**0.5
            values[slot] = wide + 0.2 * wide.norm(dim=1, keepdim=True) * step
    assert judge(sides).verdict == "undecided"
    sides.serve(2, lambda bank: bank[0].clone())
    result = judge(sides)
    assert result.verdict == "misaligned"
    (mixed,) = (item for item in result.findings if item.code == "offset-mixed")
    assert "slot 2" in mixed.evidence
    assert "draft-eval" in mixed.remedy


def test_stacked_findings_say_how_much_each_explains() -> None:
    by_code = {fault.name: fault for fault in FAULTS}
    both = (by_code["every state one deeper"], by_code["state after an RMS norm"])
    found = {item.code: item.share for item in inject(scene(), "bf16", both).result.findings}
    wiring = next(share for code, share in found.items() if code.startswith("offset-"))
    assert wiring == pytest.approx(2 / 3)  # two slots of three; the third is explained by the norm
    assert found["norm-applied"] is not None
    assert 0.9 < found["norm-applied"] <= 1.0
    late = inject(scene(), "bf16", (by_code["late rows of another sample"],)).result
    shares = [item.share for item in late.findings if item.code == "rows-disagree"]
    assert shares == [pytest.approx(43 / 192)]  # as many as the other sample has so late
    healthy_shares = {item.share for item in judge(healthy(scene(), NOISES["bf16"])).findings}
    assert healthy_shares == {None}
