"""What an engine's own code says against the tables, as a finding."""

from __future__ import annotations

from hsforensics.findings import finding
from hsforensics.rules.forward import Serving
from hsforensics.rules.introspect.read import Introspection
from hsforensics.states import Finding


def introspection_findings(seen: Introspection | None, serving: Serving) -> list[Finding]:
    """Nothing when no code was read or it agrees, an info where the tables are silent, a warning where they differ."""
    if seen is None or seen.agrees:
        return []
    own = f"'{seen.rule.rule}', default '{seen.rule.default}'"
    if seen.tables is None:
        message = f"the tables know no rule here; the engine's own code follows {own}"
        return [finding("rule-introspected", str(serving), message, seen.origin, severity="info")]
    tables = f"'{seen.tables.rule}', default '{seen.tables.default}'"
    message = f"the engine's own code follows {own}, the tables say {tables}; the code counts"
    return [finding("rule-introspected", str(serving), message, seen.origin)]
