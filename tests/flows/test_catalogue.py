"""``findings`` as a library call."""

from __future__ import annotations

import pytest

from hsforensics.errors import HsfError
from hsforensics.findings import CATALOGUE
from hsforensics.flows.catalogue import catalogue


def test_all_kinds_or_the_one_asked_for() -> None:
    assert [kind.code for kind in catalogue().catalogue] == list(CATALOGUE)
    assert catalogue("keys-conflict").catalogue == (CATALOGUE["keys-conflict"],)


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("offset-uniforn", "did you mean offset-uniform?"),
        ("wiring_right", "did you mean wiring-right?"),
        ("xyzzy", "list them all: hsforensics findings"),
    ],
)
def test_an_unknown_code_is_refused_with_the_one_that_was_meant(code: str, remedy: str) -> None:
    with pytest.raises(HsfError, match=code) as refused:
        catalogue(code)
    assert (refused.value.exit_code, refused.value.remedy) == (2, remedy)
