"""Every transform is recognised alone and combined; noise and aliens are never explained away."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from hsforensics.matching.hypotheses.case import Explanation
from hsforensics.matching.hypotheses.stream import sum_of_ranks
from hsforensics.matching.hypotheses.table import HYPOTHESES, explain
from hsforensics.states import State
from tests.matching.hypotheses.cases import ROWS, bank_of, case_of, rotation, shifted, wide_world
from tests.world import HIDDEN, LAYERS, disturb

Bank = dict[State, Tensor]


def unit(values: Tensor) -> Tensor:
    return values / values.square().mean(dim=1, keepdim=True).sqrt()


def gain() -> Tensor:
    return 0.4 + 1.6 * torch.rand(HIDDEN, generator=torch.Generator().manual_seed(8))


FAULTS: dict[str, tuple[Callable[[Bank], Tensor], set[str], State | None]] = {
    "scale": (lambda b: b[6] * 1.7, {"scaled"}, 6),
    "negated": (lambda b: b[6] * -1.0, {"scaled"}, 6),
    "unit norm": (lambda b: unit(b[4]), {"norm-applied"}, 4),
    "norm of a layer": (lambda b: unit(b[5]) * gain(), {"norm-applied"}, 5),
    "layer without residual": (lambda b: b[7] - b[6], {"residual-missing"}, 7),
    "MLP without residual": (lambda b: b[7] - b["mid:6"], {"residual-missing"}, 7),
    "attention without residual": (lambda b: b["mid:6"] - b[6], {"residual-missing"}, "mid:6"),
    "branch before its norm": (lambda b: unit((b[7] - b["mid:6"]) / gain()), {"residual-missing"}, 7),
    "one row late": (lambda b: shifted(b[6], 1), {"rows-lagged"}, 6),
    "two rows early": (lambda b: shifted(b[6], -2), {"rows-lagged"}, 6),
    "rows of another request": (lambda b: b[6].roll(ROWS, dims=0), {"rows-foreign"}, 6),
    "rows shuffled": (lambda b: b[6][torch.randperm(3 * ROWS)], {"rows-foreign"}, 6),
    "rotation": (lambda b: b[6] @ rotation(), {"rotated"}, 6),
    "partial sum": (lambda b: b["mid:6"] + 0.5 * (b[7] - b["mid:6"]), {"partial-sum"}, 7),
    "two ranks added": (lambda b: b[7] + b["mid:6"], {"partial-sum"}, 7),
    "three ranks added": (lambda b: b[7] + 2 * b["mid:6"], {"partial-sum"}, 7),
    "scale and lag": (lambda b: 0.4 * shifted(b[6], 2), {"scaled", "rows-lagged"}, 6),
    "branch and lag": (lambda b: shifted(b[7] - b["mid:6"], -1), {"residual-missing", "rows-lagged"}, 7),
    "branch and scale": (lambda b: 3 * (b[7] - b["mid:6"]), {"residual-missing", "scaled"}, 7),
    "norm and lag": (lambda b: shifted(unit(b[4]), 3), {"norm-applied", "rows-lagged"}, 4),
    "rotation and lag": (lambda b: shifted(b[6] @ rotation(), 1), {"rotated", "rows-lagged"}, 6),
}


def explained(build: Callable[[Bank], Tensor], noise: float = 0.0) -> Explanation | None:
    world = wide_world()
    bank = bank_of(world)
    torch.manual_seed(2)
    values = disturb(build(bank), noise, torch.Generator().manual_seed(4))
    return explain(case_of(values, bank, world))


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("name", FAULTS)
def test_every_transform_is_named_with_its_state(name: str, noise: float) -> None:
    build, kinds, state = FAULTS[name]
    found = explained(build, noise)
    assert found is not None
    assert (set(found.kinds), found.state) == (kinds, state)
    assert name == "partial sum" or found.share > 0.5


def test_the_numbers_of_a_scale_and_a_lag_are_measured() -> None:
    found = explained(FAULTS["scale and lag"][0])
    assert found is not None
    assert (found.lag, found.scale) == (2, pytest.approx(0.4))
    assert found.distance < 1e-3
    assert "2 rows late" in found.words


def test_a_tensor_of_another_model_is_never_explained() -> None:
    for seed in range(3):
        alien = torch.randn(3 * ROWS, HIDDEN, generator=torch.Generator().manual_seed(seed))
        assert explained(lambda _bank, alien=alien: alien) is None  # type: ignore[misc]


@pytest.mark.parametrize("noise", [0.1, 0.2, 0.3, 0.5])
def test_noise_alone_is_never_explained_as_a_transform(noise: float) -> None:
    assert explained(lambda bank: bank[6], noise) is None


def test_an_average_of_two_states_is_a_partial_sum_and_no_state() -> None:
    found = explained(lambda bank: 0.5 * (bank[6] + bank[7]))
    assert found is None or found.kinds == ("partial-sum",)


def test_the_ranks_of_a_tensor_parallel_engine_add_up_to_the_state() -> None:
    bank = bank_of(wide_world())
    branch, middle = bank[7] - bank["mid:6"], bank["mid:6"]
    ranks = [middle + share * branch for share in (0.2, 0.5, 0.3)]
    torch.testing.assert_close(sum_of_ranks(ranks, middle), bank[7])


def test_the_table_is_in_words() -> None:
    assert len({item.words for item in HYPOTHESES}) == len(HYPOTHESES)
    assert LAYERS > 7
