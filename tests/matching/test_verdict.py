"""From wirings to a verdict."""

import pytest

from hsforensics.matching.records import roles_for
from hsforensics.matching.verdict import judge
from hsforensics.results import Verdict
from hsforensics.states import POSTNORM, Wiring


@pytest.mark.parametrize(
    ("trained", "served", "verdict", "code", "offsets", "uniform"),
    [
        ((3, 31, 59), (3, 31, 59), "aligned", "wiring-right", (0, 0, 0), True),
        ((2, 30, 58), (3, 31, 59), "misaligned", "offset-uniform", (1, 1, 1), True),
        ((3, 31, 59), (0, 3, 31), "misaligned", "offset-mixed", (-3, -28, -28), False),
        ((3, 31, 59), (31, 3, 59), "misaligned", "channel-order", (28, -28, 0), False),
        ((3, 31, POSTNORM), (3, 31, 60), "misaligned", "offset-mixed", (0, 0, None), False),
        ((3, 31, 59), (4, None, 60), "misaligned", "offset-mixed", (1, None, 1), False),
    ],
)
def test_known_wirings(
    trained: Wiring, served: Wiring, verdict: Verdict, code: str, offsets: tuple[int | None, ...], uniform: bool | None
) -> None:
    found = judge(trained, served, (3, 3))
    assert (found.verdict, found.offsets, found.offset_uniform) == (verdict, offsets, uniform)
    assert [item.code for item in found.findings] == [code]


def test_an_unknown_slot_never_makes_aligned() -> None:
    assert judge((3, 31, None), (3, 31, 59), (3, 3)).verdict == "undecided"
    assert judge(None, (3, 31, 59), (3, 3)).verdict == "undecided"
    assert judge((3, 31, 59), None, (3, 3)).verdict == "undecided"


def test_nothing_served_is_undecided_and_says_so() -> None:
    found = judge((3, 31, 59), None, (3, None))
    assert (found.verdict, found.offsets) == ("undecided", None)
    assert [item.code for item in found.findings] == ["served-unknown"]


def test_another_number_of_states_is_misaligned() -> None:
    found = judge((3, 31, 59), (3, 31), (3, 2))
    assert (found.verdict, found.findings[0].code) == ("misaligned", "channel-count")


@pytest.mark.parametrize(
    ("labels", "fc_channels", "roles"),
    [
        (["h[0]", "h[1]", "h[2]", "h[3]"], None, ("aux", "aux", "aux", "target")),
        (["h[0]", "h[1]", "h[2]", "h[3]"], 3, ("aux", "aux", "aux", "target")),
        (["h[0]", "h[1]", "h[2]", "h[3]"], 4, ("aux", "aux", "aux", "aux")),
        (["h[0]", "h[1]", "h[2]", "h[3]", "h[4]"], 3, ("aux", "aux", "aux", "unused", "target")),
        (["aux_0", "aux_1", "aux_2"], None, ("aux", "aux", "aux")),
        (["aux_0", "aux_1", "aux_2", "final"], None, ("aux", "aux", "aux", "target")),
        (["h[0]"], None, ("aux",)),
    ],
)
def test_roles_follow_the_width_of_fc_and_else_the_trainers_convention(
    labels: list[str], fc_channels: int | None, roles: tuple[str, ...]
) -> None:
    assert roles_for(labels, fc_channels) == roles
