"""Errors that a user can cause, each with a stable code, an exit code and a remedy.

Anything else that escapes is a bug of ours (exit 70). The table below is the documentation's source.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

EXIT_GOOD = 0
EXIT_DIFFERENCE = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_BUG = 70
EXIT_INTERRUPTED = 130

ERROR_CODES: dict[str, tuple[int, str]] = {
    "usage": (EXIT_USAGE, "The command line is wrong, or two options contradict each other."),
    "not-found": (EXIT_USAGE, "A path on the command line does not exist."),
    "dump-unknown": (EXIT_REFUSED, "The path holds no dump layout that a reader knows."),
    "dump-unreadable": (EXIT_REFUSED, "A dump file is torn, truncated, unsafe or not what its layout says."),
    "capture-foreign": (EXIT_REFUSED, "The directory is not an hsforensics capture, or of another format version."),
    "capture-unfinished": (EXIT_REFUSED, "The capture was interrupted, or files of it are missing or altered."),
    "target-unreadable": (EXIT_REFUSED, "The target model's config or weights cannot be read, or lack a needed part."),
    "target-foreign": (EXIT_REFUSED, "The target given is another one than the capture was made with."),
    "drafter-unreadable": (EXIT_REFUSED, "The drafter's config or weights cannot be read, or lack a needed part."),
    "drafter-unsupported": (EXIT_REFUSED, "The drafter has a structure that this version cannot evaluate faithfully."),
    "nothing-compared": (EXIT_REFUSED, "No row of any channel could be compared or evaluated, so there is no verdict."),
    "evidence-ambiguous": (EXIT_REFUSED, "The report does not settle the trained wiring; name it with --wiring."),
    "report-foreign": (EXIT_REFUSED, "The report is no compare report of this schema, or belongs to another drafter."),
    "rule-unknown": (EXIT_REFUSED, "No id rule is known for this engine, version and model class."),
    "contract-unreadable": (EXIT_REFUSED, "No contract lies beside the drafter, or it is torn or of another version."),
    "engine-unreadable": (EXIT_REFUSED, "The code of an engine that was given cannot be read or run on stubs."),
    "not-expressible": (EXIT_REFUSED, "No list of layer ids makes this engine serve the wiring."),
    "write-refused": (EXIT_REFUSED, "Writing would touch a file that must not be touched, or overwrite one."),
    "engine-failed": (
        EXIT_REFUSED,
        "The serving engine did not start, died, or refused a request; its last lines are shown.",
    ),
    "dependency-missing": (EXIT_REFUSED, "An optional package is needed for this and is not installed."),
}
"""Error code -> (exit code, meaning)."""


class HsfError(Exception):
    """An error that a user can cause and can mend; shown as one line, never as a traceback.

    Attributes:
        code: A key of ``ERROR_CODES``.
        where: The file, channel or option that is at fault.
        message: What is wrong: allowed versus got.
        remedy: What to type or change next.
    """

    def __init__(self, code: str, where: object, message: str, remedy: str) -> None:
        self.code = code
        self.where = str(where)
        self.message = message
        self.remedy = remedy
        super().__init__(f"{self.where}: {message}; {remedy}")

    @property
    def exit_code(self) -> int:
        """The exit code that the command ends with: 2 or 3."""
        return ERROR_CODES[self.code][0]

    def __str__(self) -> str:
        return f"error[{self.code}]: {self.where}: {self.message}; {self.remedy}"


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, or ``None`` when none is like it."""
    return next(iter(get_close_matches(word, known, n=1)), None)
