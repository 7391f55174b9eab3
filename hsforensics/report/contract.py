"""``contract`` on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsforensics.report.console import print_path, print_value
from hsforensics.report.findings import print_findings
from hsforensics.results_contract import ContractResult, ContractSlot
from hsforensics.rules.explain import what_is_served
from hsforensics.states import show_state, show_wiring

if TYPE_CHECKING:
    from rich.console import Console

_VERDICTS = {
    "kept": "Kept: the files, and what is served by measurement or id rule, agree with the contract.",
    "broken": "Broken: see the findings of severity error.",
    "undecided": "Undecided: what was given does not say whether the promised states will be served.",
}


def print_contract(result: ContractResult, out: Console) -> None:
    """Print the whole result."""
    print_path(out, "contract", result.path)
    print_value(out, "promises", f"{show_wiring(result.states)}, values of {result.imprints} sequences")
    for prediction in result.predicted:
        print_value(out, "engine", f"{prediction.engine} {what_is_served(prediction)} (predicted)")
    for slot in result.slots:
        print_value(out, f"slot {slot.slot}", _slot(slot))
    print_findings(result.findings, out)
    out.print()
    out.print("Written." if result.action == "write" else _VERDICTS[result.verdict], markup=False)


def _slot(slot: ContractSlot) -> str:
    served = "nothing served" if slot.served is None else f"served at distance {slot.served:.4f}"
    nearest = "" if slot.nearest is None else f", nearest {show_state(slot.nearest)} in the capture"
    return f"promised {show_state(slot.promised)}: {slot.status}, {served}{nearest}"
