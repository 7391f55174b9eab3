"""How a command ends: the only place where errors become one line on stderr and an exit code."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from hsforensics.cli.examples import EXAMPLES
from hsforensics.errors import EXIT_BUG, EXIT_INTERRUPTED, EXIT_REFUSED, EXIT_USAGE, HsfError, closest
from hsforensics.report.console import visible

if TYPE_CHECKING:
    from typer import Typer

EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE, as for any program whose reader went away
_NAME = "hsforensics"
_UNKNOWN_COMMAND = re.compile(r"^No such command '(.*?)'")


def run(app: Typer) -> int:
    """Run the command line and return its exit code; no error that a user can cause shows a traceback."""
    try:
        code = app(prog_name=_NAME, standalone_mode=False)
        sys.stdout.flush()
    except HsfError as error:
        return _say(str(error), error.exit_code)
    except TyperException as error:
        return _usage(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except SystemExit as error:  # typer's answer to a reader that went away is 1, which means "a difference" here
        return _quietly() if isinstance(error.__context__, BrokenPipeError) else int(error.code or 0)
    except BrokenPipeError:
        return _quietly()
    except OSError as error:
        if error.filename is None:  # stdout itself, such as a full disk behind a redirection
            return _say(
                f"error[write-refused]: stdout: {error.strerror}; free space, or write elsewhere", _lost_stdout()
            )
        return _bug(error)
    except Exception as error:  # noqa: BLE001 (the last line of defence)
        return _bug(error)
    return code if isinstance(code, int) else 0


def _usage(error: TyperException) -> int:
    """A wrong command line, as one line like every other refusal; help asked for by giving nothing is shown as help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message())
        return EXIT_USAGE
    path, words, meant = _path(error), _said(error), _meant(error)
    next_step = f"did you mean {meant}?" if meant else f"for example: {EXAMPLES[path][0]}"
    return _say(f"error[usage]: {path}: {words}; see {path} --help; {next_step}", EXIT_USAGE)


def _path(error: TyperException) -> str:
    """The command that was called; typer does not always say."""
    context = getattr(error, "ctx", None)
    words = [_NAME, *sys.argv[1:]]
    typed = next(path for end in (3, 2, 1) if (path := " ".join(words[:end])) in EXAMPLES)
    return typed if context is None else str(context.command_path)


def _said(error: TyperException) -> str:
    """What is wrong, without what typer adds in its own manner: its guesses, and the name of a Python class."""
    words = " ".join(error.format_message().split()).replace("Value error, ", "")
    return words.partition(" (Possible options:")[0].partition(". Did you mean")[0].rstrip(".")


def _meant(error: TyperException) -> str | None:
    """The option or command that was probably meant."""
    options = getattr(error, "possibilities", None)
    if options:
        return str(options[0])
    typed, group = _UNKNOWN_COMMAND.search(error.message), getattr(error, "cmd", None)
    return closest(typed[1], group.commands) if typed and isinstance(group, TyperGroup) else None


def _say(text: str, code: int) -> int:
    typer.echo(visible(f"hsforensics: {text}"), err=True)
    return code


def _bug(error: Exception) -> int:
    if os.environ.get("HSF_DEBUG"):
        raise error
    return _say(f"bug: {type(error).__name__}: {error}; set HSF_DEBUG=1 for the traceback", EXIT_BUG)


def _quietly() -> int:
    _lost_stdout()
    return EXIT_BROKEN_PIPE


def _lost_stdout() -> int:
    """Point stdout at nothing, so that the interpreter's last flush cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_REFUSED
