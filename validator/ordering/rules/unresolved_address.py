"""An access before the wait whose address cannot be traced to an argument.

The address comes from memory, a call or arithmetic that the analysis does not follow, so no role applies and the
access is unproven. Behind the wait such accesses are only counted.

Bad:  a pointer returned by a function that is not inlined, dereferenced before the wait.
Good: the same access below the wait, or the pointer taken from a kernel argument.

Mend it by taking the pointer straight from an argument, or by moving the access below the wait.

Not seen: pointers that pass through memory at addresses that vary.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.ordering.findings import finding
from validator.ordering.memory import Touch
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule("order/unresolved-address", "an early access has no known source", Severity.UNPROVEN)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per reason."""
    groups: dict[tuple[str, str], list[Touch]] = {}
    for early in facts.early:
        touch = early.touch
        if touch.unresolved and early.judgement.severity is Severity.UNPROVEN:
            groups.setdefault((touch.word, touch.unresolved), []).append(touch)
    for (word, reason), items in groups.items():
        yield finding(
            RULE,
            facts,
            [t.index for t in items],
            f"{items[0].event.opcode} before the wait ({word}) goes to memory that cannot be told: {reason}",
            identity=(word, reason),
            why="no declared role applies to an address without a source",
            fix="move the access below the wait, or take the pointer straight from a kernel argument",
        )
