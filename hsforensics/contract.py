"""One line for a trainer: ``write_contract(directory, wiring=(3, 31, 59), samples=[(token_ids, channels)])``.

See ``hsforensics.flows.contract.write_contract`` for the arguments, and ``docs/contract.md``.
"""

from __future__ import annotations

from hsforensics.flows.contract import write_contract
from hsforensics.flows.verify_contract import verify_contract

__all__ = ["verify_contract", "write_contract"]
