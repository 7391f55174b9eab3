"""Naming the rule that a setter follows: it is run on a battery of lists, and compared with every rule we know."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from hsforensics.rules.functions import DEFAULTS, RULES, Ids
from hsforensics.rules.introspect.classes import ClassIndex, ClassInfo
from hsforensics.rules.introspect.program import Program, build_program, hooks_of
from hsforensics.rules.introspect.sandbox import run_cases

LAYERS = (61, 36)
_LISTS: tuple[tuple[int, ...], ...] = (
    (1, 29, 30), (2, 18, 33), (0, 17, 32), (-1, 17, 31), (17, 1, 32), (3, 1, 30), (7,), (4, 5, 6, 7, 8)
)  # fmt: skip
_NO_TARGET = re.compile(r"NextN$|MTP$|Eagle3?$|Assistant|Embedding|Bidirectional|Draft|DFlash|DSpark")
_NAMED = ("plus_one", "as_is", "plus_one_if_first_is_one", "as_is_if_last_is_named")
_TAKES_NONE = "takes 1 positional argument"
_HONEST = ("ValueError", "IndexError", "AssertionError")  # a list that is refused says nothing about the others


@dataclass(frozen=True)
class ProbedHook:
    """What one hook of one class does, found by running it on stubs.

    Attributes:
        architecture: The class that the engine loads.
        method: ``eagle3``, ``dflash`` or ``dspark``.
        rule: A key of ``RULES``, or ``unknown`` when none fits.
        default: A key of ``DEFAULTS``, or ``unknown``.
        top: What asking for state L in the setter does: ``taken``, ``dropped``, or the name of the error.
        marks: Where the forward pass looks: ``list``, ``flag``, both joined by ``+``, or ``?``.
        note: Why the rule is unknown, or how the setter fails.
    """

    architecture: str
    method: str
    rule: str
    default: str
    top: str
    marks: str
    note: str = ""


def probe_classes(index: ClassIndex, classes: dict[str, ClassInfo], origin: str) -> tuple[ProbedHook, ...]:
    """Probe every hook of some classes in one process.

    Raises:
        HsfError: ``engine-unreadable``.
    """
    programs: dict[str, Program] = {}
    cases: list[dict[str, Any]] = []
    for name, info in classes.items():
        hooks = hooks_of(index, info)
        if hooks:
            programs[name] = build_program(index, info)
            cases += [_case(name, info, hook, layers, ids) for hook in hooks for layers, ids in _battery(hook)]
    results = run_cases(programs, cases, origin) if cases else []
    groups = groupby(zip(cases, results, strict=True), lambda pair: (pair[0]["program"], pair[0]["hook"]))
    return tuple(_judge(list(pairs), programs[name]) for (name, _), pairs in groups)


def is_target(name: str) -> bool:
    """Whether a class can be the target of a drafter: drafters and embedding models only inherit the hooks."""
    return _NO_TARGET.search(name) is None


def _battery(hook: str) -> list[tuple[int, Ids | None]]:
    """Pairs of L and ids; per L: no ids, the lists, L as an id, and the id whose ``plus_one`` is L."""
    lists = _LISTS if "eagle3" in hook else tuple(ids for ids in _LISTS if min(ids) >= 0)
    return [(n, ids) for n in LAYERS for ids in (None, *lists, (2, 18, n), (2, 18, n - 1))]


def _case(name: str, info: ClassInfo, hook: str, layers: int, ids: Ids | None) -> dict[str, Any]:
    return {"program": name, "root": info.key, "hook": hook, "layers": layers, "ids": None if ids is None else [*ids]}


def _judge(pairs: list[tuple[dict[str, Any], dict[str, Any]]], program: Program) -> ProbedHook:
    cases, results = [case for case, _ in pairs], [result for _, result in pairs]
    asked = [_asked(result, program) for result in results]
    by_case = {
        (case["layers"], _key(case["ids"])): (got, r) for case, got, r in zip(cases, asked, results, strict=True)
    }
    rule, note = _rule(by_case)
    return ProbedHook(
        architecture=cases[0]["program"],
        method=cases[0]["hook"].split("_")[1],
        rule=rule,
        default=_default(by_case),
        top=_top(*by_case[LAYERS[0], (2, 18, LAYERS[0] - 1)]),
        marks=_marks(results, program),
        note=note,
    )


def _top(got: Ids | None, result: dict[str, Any]) -> str:
    return str(result["error"]) if got is None else "taken" if len(got) == 3 else "dropped"


_Cases = dict[tuple[int, Ids | None], tuple[Ids | None, dict[str, Any]]]


def _rule(by_case: _Cases) -> tuple[str, str]:
    """The one rule that explains every list which the setter took, and a note when there is none."""
    with_ids = {key: value for key, value in by_case.items() if key[1] is not None}
    taken = {(layers, ids): pair for (layers, ids), pair in with_ids.items() if pair[0] is not None and ids is not None}
    errors = sorted({result["error"] for got, result in with_ids.values() if got is None and "error" in result})
    strange = [name for name in errors if name not in _HONEST]
    if strange and len(taken) < 4:
        text = min(result.get("text", "") for got, result in with_ids.values() if got is None)
        if strange == ["TypeError"] and _TAKES_NONE in text:
            return "ignores_ids", ""
        return ("fails" if strange == ["AttributeError"] else "unknown"), f"{strange[0]}: {text}"
    if not taken:
        return "unknown", f"every list is refused ({', '.join(errors)})"
    if all(got == () for got, _ in taken.values()):
        return "captures_nothing", "the setter stores ids where the forward pass does not look"
    for name in _NAMED:
        if all(
            _agrees(got, _apply(name, ids, layers), layers, result) for (layers, ids), (got, result) in taken.items()
        ):
            return name, ""
    return "unknown", "no known rule gives what the setter stores"


def _agrees(got: Ids | None, expected: Ids, layers: int, result: dict[str, Any]) -> bool:
    """Whether a setter stored what a rule expects; one that marks layers cannot mark what is no layer."""
    if "by_flags" in result:
        expected = tuple(state for state in expected if 0 <= state < layers)
    return got == tuple(sorted(expected))


def _apply(name: str, ids: Ids, layers: int) -> Ids:
    return tuple(state for state in RULES[name](ids, layers) or () if isinstance(state, int))


def _default(by_case: _Cases) -> str:
    found = {layers: by_case[layers, None] for layers in LAYERS}
    if all("error" in result for _, result in found.values()):
        return "refused"
    for name in ("canonical", "canonical_plus_one"):
        if all(got == tuple(sorted(DEFAULTS[name](layers))) for layers, (got, _) in found.items()):
            return name
    return "none" if all(got == () for got, _ in found.values()) else "unknown"


def _asked(result: dict[str, Any], program: Program) -> Ids | None:
    """What the forward pass will find, ascending; ``None`` after an error."""
    if "error" in result:
        return None
    lists: dict[str, list[int]] = result["lists"]
    for owner, values in lists.items():
        ways = program.get(owner, {}).get("captures_by")
        if ways == []:
            return ()  # the class is known, and its forward pass looks at neither
        if ways == ["flag"]:
            result["by_flags"] = True
            return tuple(sorted(result["flags"]))
        return tuple(sorted(values))
    return ()


def _marks(results: list[dict[str, Any]], program: Program) -> str:
    for result in results:
        for owner in result.get("lists", ()):
            ways = program.get(owner, {}).get("captures_by")
            if isinstance(ways, list) and ways:
                return "+".join(ways)
    return "?"


def _key(ids: list[int] | None) -> Ids | None:
    return None if ids is None else tuple(ids)
