"""How a command ends: the only place where errors become one line on stderr and an exit code."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import typer
from typer.exceptions import TyperException

from hsforensics.errors import EXIT_BUG, EXIT_INTERRUPTED, EXIT_REFUSED, EXIT_USAGE, HsfError
from hsforensics.report.console import visible

if TYPE_CHECKING:
    from typer import Typer

EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE, as for any program whose reader went away


def run(app: Typer) -> int:
    """Run the command line and return its exit code; no error that a user can cause shows a traceback."""
    try:
        code = app(standalone_mode=False)
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
    context = getattr(error, "ctx", None)
    words = str(error.format_message()) if hasattr(error, "format_message") else str(error)
    path = context.command_path if context is not None else "hsforensics"
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(words)
        return EXIT_USAGE
    return _say(f"error[usage]: {path}: {' '.join(words.split()).rstrip('.')}; see {path} --help", EXIT_USAGE)


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
