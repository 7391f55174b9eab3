"""``rules`` on a terminal: the answer in one line, why, the other ways with their price, and known traps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsforensics.report.console import print_value, print_wrapped
from hsforensics.report.findings import print_findings
from hsforensics.results_rules import NOWHERE, RuleAlternative, RulesResult
from hsforensics.rules.functions import NO_STATE
from hsforensics.states import show_wiring

if TYPE_CHECKING:
    from rich.console import Console


def print_rules(result: RulesResult, out: Console) -> None:
    """Print the whole result."""
    of = "" if result.method == "eagle3" else f", {result.method}"
    depth = "L not known" if result.layers is None else f"L = {result.layers}"
    print_value(out, "engine", f"{result.engine}, {result.architecture}, {depth}{of}")
    others = "" if not result.seen_live else f" (this rule was seen live in {', '.join(result.seen_live)})"
    known = result.verified if result.verified == "verified live" else f"{result.verified}{others}"
    print_value(out, "rule", f"{result.rule}: {known}; {result.source}")
    print_value(out, "means", result.meaning)
    print_value(out, "ids go to", result.key or "nowhere: it never reads any")
    print_value(out, "answer", answer(result))
    print_value(out, "because", result.reason)
    if result.alternatives:
        out.print()
        out.print("other ways, the cheapest first:")
        for way in result.alternatives:
            print_wrapped(out, _way(way), indent=2, hang=4)
    print_findings(result.findings, out)


def answer(result: RulesResult) -> str:
    """The answer in one line."""
    states = show_wiring(result.states)
    if result.question == "states":
        if result.ids is None:
            return f"{states} cannot be asked for here"
        return f"for {states} write {list(result.ids)}"
    ids = "without ids" if result.ids is None else f"ids {list(result.ids)}"
    if result.states is not None:
        return f"{ids}: its default serves {states}" if result.ids is None else f"{ids} serve {states}"
    return f"{ids}: no state of the target is served" if result.rule in NO_STATE else f"{ids}: the engine fails"


def _way(way: RuleAlternative) -> str:
    where = way.engine if way.versions is None else f"{way.engine.partition('==')[0]} {way.versions}"
    ids = "its default" if way.key == NOWHERE else f"{list(way.ids)} in {way.key}"
    return f"{way.kind:<9}{where}: {ids} serves {show_wiring(way.states)}; {way.cost}"
