"""The self-check of a live capture: silent on sound ones, and it names each kind of disagreement."""

from __future__ import annotations

import torch
from torch import Tensor

from hsforensics.matching.self_check import SelfCheck


def bank(rows: int = 6, dtype: torch.dtype = torch.float32) -> dict[int | str, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    return {state: torch.randn(rows, 16, generator=generator).to(dtype) for state in (0, 1, 2, 3, "mid:1", "postnorm")}


def codes(check: SelfCheck) -> list[str]:
    return [found.code for found in check.findings()]


def test_a_sound_capture_gives_no_finding_and_names_the_served_states() -> None:
    check = SelfCheck()
    for rows in (6, 9):
        states = bank(rows)
        served = [states[1], states[3]]
        check.add(served, states, [torch.cat(served, 1)])
    assert codes(check) == []
    assert check.nearest() == ((1, 0.0), (3, 0.0))


def test_one_rounding_in_bf16_is_no_disagreement() -> None:
    states = bank(dtype=torch.bfloat16)
    served = [(states[2].float() * (1 + 2**-8)).to(torch.bfloat16)]
    check = SelfCheck()
    check.add(served, states, [served[0]])
    assert codes(check) == []


def test_a_branch_without_its_residual_is_no_state_of_the_bank() -> None:
    states = bank()
    branch = states[2] - states["mid:1"]
    check = SelfCheck()
    check.add([branch], states, [branch])
    assert codes(check) == ["served-off-bank"]


def test_a_state_that_fits_in_one_request_only_is_off_the_bank() -> None:
    check = SelfCheck()
    check.add([bank(6)[1]], bank(6), [bank(6)[1]])
    check.add([bank(9)[2]], bank(9), [bank(9)[2]])
    assert codes(check) == ["served-off-bank"]


def test_rows_that_are_not_finite_are_no_state() -> None:
    states = bank()
    broken = torch.full_like(states[1], float("nan"))
    check = SelfCheck()
    check.add([broken], states, [broken])
    assert codes(check) == ["served-off-bank", "fc-input-differs"]


def test_other_columns_in_fc_are_found_even_when_every_slot_is_a_state() -> None:
    states = bank()
    check = SelfCheck()
    check.add([states[1], states[2]], states, [torch.cat([states[2], states[1]], 1)])
    assert codes(check) == ["fc-input-differs"]


def test_a_drafter_that_norms_first_is_judged_by_what_it_was_handed() -> None:
    states = bank()
    joined = torch.cat([states[1], states[2]], 1)
    check = SelfCheck()
    check.add([states[1], states[2]], states, [joined / 3, joined])
    assert codes(check) == []


def test_an_fc_of_another_width_differs_and_a_silent_one_is_named() -> None:
    states = bank()
    check = SelfCheck()
    check.add([states[1], states[2]], states, [states[1]])
    check.add([states[1], states[2]], states, [])
    assert codes(check) == ["fc-not-reached", "fc-input-differs"]


def test_a_capture_that_served_nothing_is_not_judged() -> None:
    check = SelfCheck()
    check.add([], bank(), [])
    assert codes(check) == []
