"""Launches show an early access of machine code in which the audit found none. That is a defect of the audit.

The audit claims to see every access before the wait. Where a launch behind a late producer, publisher or reader gives
another result than alone and the audit of the same machine code named no such argument, one of the two is wrong, and
the launches are a fact. The kernel is refused, and the audit has to be mended.

How to mend it: report it with the bundle (the artifact and the contract are all that is needed to see it again). The
kernel itself is mended like any early access: move the access of the named argument below the wait.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Finding, Location, Severity

__all__ = ["RULE", "find"]

RULE = Rule(
    id="gpu/missed-by-audit",
    title="launches show an early access that the audit did not find",
    severity=Severity.ERROR,
)


def find(match: str, where: Location, missed: tuple[str, ...], said: str) -> Finding:
    """`missed`: arguments that only the launches named; `said`: what both say together."""
    named = ", ".join(missed) or "an argument"
    return Finding(
        RULE.id,
        RULE.severity,
        f"{match}: {said}: that the audit missed {named} is a defect of the audit, report it",
        where,
        why="an audit that misses one early access may miss others: its proofs are worth less until it is mended",
        fix=f"report it with the bundle, and move the access of {named} below the wait",
        identity=(match, *sorted(missed)),
    )
