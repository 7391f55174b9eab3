"""Who made a result, and what is left out of it."""

import sys

import pytest

from hsforensics.flows.provenance import HIDDEN, provenance, without_secrets


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["x", "compare", "a", "b"], ("x", "compare", "a", "b")),
        (["x", "--salt", "pepper", "a"], ("x", "--salt", HIDDEN, "a")),
        (["x", "a", "--salt=pepper"], ("x", "a", f"--salt={HIDDEN}")),
        (["x", "a", "--salt"], ("x", "a", "--salt")),
        (["--salt", "--salt", "--salt"], ("--salt", HIDDEN, HIDDEN)),
    ],
)
def test_a_salt_never_stands_in_a_result(given: list[str], kept: tuple[str, ...]) -> None:
    assert without_secrets(given) == kept


def test_the_command_line_of_a_result_hides_the_salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["hsforensics", "fingerprint", "--salt", "pepper"])
    assert "pepper" not in str(provenance())
