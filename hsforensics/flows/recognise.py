"""What a path on a command line is, whatever it was given as, and the call that was probably meant.

A flow that takes paths carries ``@recognising(CALL)``: where one of them cannot be opened, the refusal says what lies
there instead, and ends with a command to paste.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from hsforensics.errors import HsfError, closest
from hsforensics.finding_kinds import MAKE_BANK
from hsforensics.findings import fill
from hsforensics.flows.path_kinds import KINDS, Kind, kind_of
from hsforensics.shell import path_text, path_word

_OF_DUMPS: tuple[Kind, ...] = ("dumps", "fingerprint of dumps", "fingerprint")
_OF_CAPTURE: tuple[Kind, ...] = ("capture", "fingerprint of a capture", "fingerprint")

_HOMES: dict[Kind, str] = {
    "dumps": MAKE_BANK[0],
    "capture": "hsforensics compare DUMPS CAPTURE",
    "fingerprint": "hsforensics compare DUMPS CAPTURE",
    "fingerprint of dumps": "hsforensics compare DUMPS CAPTURE",
    "fingerprint of a capture": "hsforensics compare DUMPS CAPTURE",
    "report": "hsforensics fix-config DRAFTER --report",
}
"""Where things go that have no free place in the command at hand."""

_WORDS: dict[Kind, str] = {
    "dumps": "DUMPS",
    "capture": "CAPTURE",
    "fingerprint": "CAPTURE",
    "fingerprint of dumps": "DUMPS",
    "fingerprint of a capture": "CAPTURE",
    "target": "MODEL",
    "drafter": "DRAFTER",
}
"""The placeholder that a path of a kind stands for."""

_CODES = (
    *("usage", "not-found", "dump-unknown", "capture-foreign", "contract-unreadable"),
    *("target-unreadable", "target-foreign", "drafter-unreadable", "drafter-unsupported"),
)
"""What a path of a wrong kind is refused with."""

_CHILDREN = 64  # entries of a folder that are looked at
_NAMED = 3


@dataclass(frozen=True)
class Place:
    """Where a command takes a path.

    Attributes:
        argument: Parameter of the flow.
        option: Its option; ``None`` for a positional argument.
        word: What stands for a path that nobody has given.
        takes: Kinds that belong here.
        needed: The command does not work without it; ``unless`` another place is filled.
        unless: That other place's parameter.
    """

    argument: str
    option: str | None
    word: str
    takes: tuple[Kind, ...]
    needed: bool = False
    unless: str | None = None


@dataclass(frozen=True)
class Call:
    """A command.

    Attributes:
        words: How it begins.
        places: Where it takes paths, in order.
        repeated: Other parameters of the flow that a corrected call repeats, and their options.
        each: Those whose values get an option each.
    """

    words: str
    places: tuple[Place, ...]
    repeated: Mapping[str, str]
    each: Mapping[str, str] = field(default_factory=dict)


_TARGET = Place("target", "--target", "MODEL", ("target",))
_NEEDED_TARGET = Place("target", "--target", "MODEL", ("target",), needed=True)
_DRAFT = Place("drafter", "--draft", "DRAFTER", ("drafter",))
_DRAFTER = Place("drafter", None, "DRAFTER", ("drafter",), needed=True)
_TOKENS = Place("dumps", None, "DUMPS", ("dumps",), needed=True)

COMPARE_CALL = Call(
    "hsforensics compare",
    (
        Place("dumps", None, "DUMPS", _OF_DUMPS, needed=True),
        Place("capture", None, "CAPTURE", _OF_CAPTURE, needed=True, unless="target"),
        _TARGET,
        _DRAFT,
    ),
    {"engine": "--engine", "architecture": "--architecture"},
)
CAPTURE_CALL = Call("hsforensics capture", (_TOKENS, _NEEDED_TARGET), {"out": "--out"})
CAPTURE_LIVE_CALL = Call(
    "hsforensics capture --engine sglang",
    (_TOKENS, _NEEDED_TARGET, _DRAFT),
    {"out": "--out", "engine_python": "--engine-python"},
)
FINGERPRINT_CALL = Call(
    "hsforensics fingerprint", (Place("path", None, "DUMPS", ("dumps", "capture"), needed=True),), {"out": "--out"}
)
DRAFT_EVAL_CALL = Call(
    "hsforensics draft-eval",
    (_DRAFTER, _NEEDED_TARGET, Place("data", "--data", "CAPTURE", ("capture", "dumps"), needed=True)),
    {},
    {"wirings": "--wiring", "channels": "--channels"},
)
CONTRACT_WRITE_CALL = Call(
    "hsforensics contract write",
    (_DRAFTER, _TARGET, Place("dumps", "--dumps", "DUMPS", ("dumps",))),
    {"wiring": "--wiring"},
)
CONTRACT_VERIFY_CALL = Call(
    "hsforensics contract verify",
    (_DRAFTER, Place("capture", None, "CAPTURE", ("capture",)), _TARGET),
    {"architecture": "--architecture"},
    {"engines": "--engine"},
)

_P = ParamSpec("_P")
_R = TypeVar("_R")


def recognising(call: Call) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Let a flow's refusals of a path say what the path is, and what was probably meant."""

    def decorate(flow: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(flow)

        @wraps(flow)
        def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            try:
                return flow(*args, **kwargs)
            except HsfError as error:
                raise explained(error, call, signature.bind(*args, **kwargs).arguments) from None

        return run

    return decorate


def explained(error: HsfError, call: Call, given: Mapping[str, Any]) -> HsfError:
    """A refusal with what the path is and what to type; the same one where the path is of the right kind.

    Args:
        error: What a flow refused.
        call: Its command.
        given: The flow's arguments by name.
    """
    paths = {place: Path(given[place.argument]) for place in call.places if given.get(place.argument)}
    culprits = (place for place, path in paths.items() if _is_about(error, path) and kind_of(path) not in place.takes)
    place = next(culprits, None)
    if place is None or error.code not in _CODES:
        return error
    path, kind = paths[place], kind_of(paths[place])
    wanted = " or ".join(KINDS[one] for one in place.takes if one != "fingerprint")
    name = place.option or place.word
    if kind is not None:
        message = f"{'holds' if kind == 'dumps' else 'is'} {KINDS[kind]}, and {name} takes {wanted}"
        return HsfError("usage", path, message, f"did you mean: {_meant(call, paths, place, given)}")
    inside = _inside(path, call)
    if inside:
        shown = ", ".join(each.name for each in inside[:_NAMED]) + (", ..." if len(inside) > _NAMED else "")
        message = f"is a folder of {shown}, and {name} takes {wanted}"
        return HsfError("usage", path, message, f"name one: {_meant(call, {**paths, place: inside[0]}, place, given)}")
    return _unrecognised(error, call, paths, place, given)


def _is_about(error: HsfError, path: Path) -> bool:
    where = Path(error.where)
    return where == path or path in where.parents


def _unrecognised(
    error: HsfError, call: Call, paths: dict[Place, Path], place: Place, given: Mapping[str, Any]
) -> HsfError:
    """A path that is not there, or nothing known."""
    path, remedy = paths[place], error.remedy
    near = None if path.exists() else _near(path, place)
    if near is not None:
        remedy = f"did you mean: {_command(call, {**paths, place: near}, given)}"
    elif "capture" in place.takes and "dumps" not in place.takes:
        remedy = f"check the path, or make a bank: {fill(MAKE_BANK[0], _known(paths))}"
    return HsfError(error.code, error.where, error.message, remedy)


def _meant(call: Call, paths: Mapping[Place, Path], culprit: Place, given: Mapping[str, Any]) -> str:
    """The command that takes the path at a place for what it is; the same one with its paths moved, if they fit in."""
    kinds = {place: kind_of(path) for place, path in paths.items()}
    homes = {place: place for place in paths if kinds[place] in place.takes}  # where a path belongs -> where it was put
    for place in [place for place in paths if place not in homes]:
        home = next((other for other in call.places if other not in homes and kinds[place] in other.takes), None)
        if home is not None:
            homes[home] = place
    kind = kinds[culprit]
    if kind is not None and culprit not in homes.values() and kind in _HOMES:
        command = fill(_HOMES[kind], _known(paths))
        return command if kind in _WORDS else f"{command} {path_word(paths[culprit], 'REPORT')}"
    return _command(call, {home: paths[place] for home, place in homes.items()}, given)


def _command(call: Call, paths: Mapping[Place, Path], given: Mapping[str, Any]) -> str:
    """The call with these paths; words stand for what it needs and nobody has given."""
    filled = {place.argument for place in paths}
    words: list[str] = []
    for place in call.places:
        needed = place.needed and place.unless not in filled
        value = path_word(paths[place], place.word) if place in paths else place.word if needed else None
        if value is not None:
            words += [value] if place.option is None else [place.option, value]
    for name, option in call.repeated.items():
        words += _spelled(option, [given.get(name)])
    for name, option in call.each.items():
        words += _spelled(option, given.get(name) or ())
    return " ".join((call.words, *words))


def _spelled(option: str, values: Iterable[object]) -> Iterator[str]:
    """An option for each value that is there: a path, a text, or a list of states."""
    for value in values:
        if value:
            text = ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
            yield f"{option} {path_word(text, option.removeprefix('--').upper())}"


def _known(paths: Mapping[Place, Path]) -> dict[str, str]:
    """Placeholders of commands -> the first given path of that kind."""
    kinds = [(kind_of(path), path) for path in paths.values()]
    return {_WORDS[kind]: path_text(path) for kind, path in reversed(kinds) if kind in _WORDS}


def _inside(path: Path, call: Call) -> list[Path]:
    """What this folder holds that the command takes: all of one kind, by name."""
    if not path.is_dir():
        return []
    taken = [kind for place in call.places for kind in place.takes]
    kinds = {child: kind_of(child) for child in sorted(path.iterdir())[:_CHILDREN]}
    first = next((kind for kind in kinds.values() if kind in taken), None)
    return [child for child, kind in kinds.items() if first is not None and kind == first]


def _near(path: Path, place: Place) -> Path | None:
    """The neighbour of a missing path that was probably meant."""
    if not path.parent.is_dir():
        return None
    fitting = {
        child.name: child for child in sorted(path.parent.iterdir())[:_CHILDREN] if kind_of(child) in place.takes
    }
    name = closest(path.name, fitting)
    return None if name is None else fitting[name]
