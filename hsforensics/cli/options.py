"""What several commands parse the same way."""

from __future__ import annotations

from enum import StrEnum

import typer

from hsforensics.states import State, parse_wiring


class Device(StrEnum):
    """Where numbers are computed; auto takes CUDA if it is present."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Dtype(StrEnum):
    """dtype that a model runs in."""

    bf16 = "bf16"
    fp32 = "fp32"


class MethodOption(StrEnum):
    """Kinds of drafter."""

    EAGLE3 = "eagle3"
    DFLASH = "dflash"
    DSPARK = "dspark"


def parse_wiring_option(text: str | None, option: str) -> tuple[State, ...] | None:
    """Read a wiring such as ``3,31,59`` from an option; ``None`` stays ``None``; bad text is a usage error."""
    if text is None:
        return None
    try:
        return parse_wiring(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def parse_ids_option(text: str | None, option: str) -> tuple[int, ...] | None:
    """Read layer ids such as ``2,30,58`` or ``-1,2,30``; ``None`` stays ``None``; bad text is a usage error."""
    if text is None:
        return None
    try:
        return tuple(int(item) for item in text.split(","))
    except ValueError:
        message = f"'{text}' is no list of layer ids: write numbers and commas, such as 2,30,58"
        raise typer.BadParameter(message, param_hint=option) from None
