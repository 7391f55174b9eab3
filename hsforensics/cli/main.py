"""The command line: registers the commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import hsforensics
from hsforensics.cli.capture import capture_command
from hsforensics.cli.compare import compare_command
from hsforensics.cli.contract import contract_app
from hsforensics.cli.demo import demo_command
from hsforensics.cli.draft_eval import draft_eval_command
from hsforensics.cli.exits import run
from hsforensics.cli.findings import findings_command
from hsforensics.cli.fingerprint import fingerprint_command
from hsforensics.cli.fix_config import fix_config_command
from hsforensics.cli.rules import rules_command
from hsforensics.cli.shape import PlainGroup, register

app = typer.Typer(
    name="hsforensics",
    cls=PlainGroup,
    help="Which hidden states was your EAGLE-3 drafter trained on, which ones is it served, and how to repair it.",
    epilog="Exit codes: 0 good, 1 a difference, 2 wrong command line, 3 could not judge, 70 bug, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
register(app, "hsforensics demo", demo_command)
register(app, "hsforensics capture", capture_command)
register(app, "hsforensics compare", compare_command)
register(app, "hsforensics fingerprint", fingerprint_command)
register(app, "hsforensics fix-config", fix_config_command)
register(app, "hsforensics draft-eval", draft_eval_command)
register(app, "hsforensics rules", rules_command)
app.add_typer(contract_app, name="contract")
register(app, "hsforensics findings", findings_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hsforensics {hsforensics.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and exit with its code; see ``hsforensics.cli.exits``."""
    sys.exit(run(app))
