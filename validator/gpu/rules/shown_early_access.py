"""A kernel that was launched behind a late producer, publisher or reader gives another result than alone.

The harness plays the launches around the kernel: a one-CTA grid lets its dependants start at once and writes what the
kernel reads (or goes on reading what it writes) only after a delay. A result that depends on the delay shows that the
argument is touched before anything orders it. The audit says the same of the code, or only the PTX was audited and the
driver's compiler moved the access.

How to mend it: as the audit's own finding says (`order/early-read`, `order/early-write`): move the access below the
wait, or load it in a way that no compiler moves.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Finding, Location, Severity

__all__ = ["RULE", "find"]

RULE = Rule(
    id="gpu/shown-early-access",
    title="behind a late neighbour the kernel computes something else",
    severity=Severity.ERROR,
)


def find(match: str, where: Location, arguments: tuple[str, ...], said: str) -> Finding:
    """`said`: what the audit and the launches say together."""
    named = ", ".join(arguments) or "an argument"
    return Finding(
        RULE.id,
        RULE.severity,
        f"{match}: {named} is touched before it is valid: {said}",
        where,
        why="launched behind its real producer it computes wrong numbers whenever that producer is late",
        fix=f"move the access of {named} below the wait; see `validator explain order/early-read`",
        identity=(match, *sorted(arguments)),
    )
