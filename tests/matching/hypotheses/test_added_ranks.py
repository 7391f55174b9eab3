"""A sum of ranks that kept its middle state is named with the number of ranks; nothing that only looks like one is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from hsforensics.matching.hypotheses.added_ranks import MOST_RANKS, ranks_added
from hsforensics.matching.hypotheses.case import Case, Explanation
from hsforensics.matching.hypotheses.table import explain
from hsforensics.states import State
from tests.matching.hypotheses.cases import bank_of, case_of, wide_world
from tests.world import disturb

Bank = dict[State, Tensor]


def case(build: Callable[[Bank], Tensor], noise: float = 0.0, dtype: torch.dtype = torch.float32) -> Case:
    world = wide_world()
    bank = bank_of(world)
    values = disturb(build(bank), noise, torch.Generator().manual_seed(4)).to(dtype)
    return case_of(values, bank, world)


def added(ranks: int) -> Callable[[Bank], Tensor]:
    """Ranks with unequal parts of one MLP, each beside the whole middle state, added up."""

    def build(bank: Bank) -> Tensor:
        shares = torch.rand(ranks, generator=torch.Generator().manual_seed(ranks)) + 0.1
        branch = bank[7] - bank["mid:6"]
        return torch.stack([bank["mid:6"] + share * branch for share in shares / shares.sum()]).sum(dim=0)

    return build


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("ranks", range(2, MOST_RANKS + 1))
def test_the_number_of_ranks_and_the_remedy_are_named(ranks: int, dtype: torch.dtype) -> None:
    found = explain(case(added(ranks), dtype=dtype))
    assert found is not None
    assert (found.kinds, found.state) == (("partial-sum",), 7)
    times = {2: ""}.get(ranks, f"{ranks - 1} times ")
    assert found.words.startswith(f"state 7 plus {times}mid:6: {ranks} ranks were added without taking the middle")
    assert found.remedy is not None
    assert found.remedy.startswith(f"subtract {times}mid:6 from the sum")
    assert found.distance < 0.004
    assert found.share > 0.99


@pytest.mark.parametrize("ranks", [2, 8])
def test_noise_far_below_the_branch_does_not_hide_it(ranks: int) -> None:
    found = ranks_added(case(added(ranks), noise=0.01))
    assert found is not None
    assert found.distance == pytest.approx(0.01, rel=0.05)


NO_SUMS: dict[str, Callable[[Bank], Tensor]] = {
    "an average of two states": lambda b: 0.5 * (b[6] + b[7]),
    "an average with the middle state": lambda b: 0.5 * (b["mid:6"] + b[7]),
    "a sum of two states": lambda b: b[6] + b[7],
    "a sum of states far apart": lambda b: b[3] + b[7],
    "a state plus another layer's middle state": lambda b: b[7] + b["mid:4"],
    "twice a state": lambda b: 2 * b[7],
    "twice a middle state": lambda b: 2 * b["mid:6"],
    "two ranks, half of the branch": lambda b: 2 * b["mid:6"] + 0.5 * (b[7] - b["mid:6"]),
    "two ranks and a tenth of something else": lambda b: b[7] + b["mid:6"] + 0.1 * b[2],
    "two ranks and a later branch": lambda b: b[7] + b["mid:6"] + 0.5 * (b[8] - b[7]),
    "no whole number of ranks": lambda b: b[7] + 1.5 * b["mid:6"],
    "more ranks than are tried": lambda b: b[7] + MOST_RANKS * b["mid:6"],
    "one rank": lambda b: b[7].clone(),
    "a stranger": lambda b: torch.randn(b[7].shape, generator=torch.Generator().manual_seed(9)),
}


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("name", NO_SUMS)
def test_nothing_else_is_named_a_sum_of_ranks(name: str, noise: float) -> None:
    assert ranks_added(case(NO_SUMS[name], noise)) is None


def test_noise_as_large_as_the_branch_leaves_it_open() -> None:
    assert ranks_added(case(added(8), noise=0.05)) is None


def test_without_the_middle_state_in_the_bank_nobody_guesses() -> None:
    whole = case(added(2))
    for lost in ({"mid:6"}, {state for state in whole.bank if isinstance(state, str) and state.startswith("mid")}):
        bank = {state: values for state, values in whole.bank.items() if state not in lost}
        found: Explanation | None = explain(Case(whole.values, bank, whole.tokens, whole.sequences, whole.runs))
        assert found is None
