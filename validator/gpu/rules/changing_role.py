"""An argument that is declared `weight` or `stable` changed while its caller ran.

That memory is fixed is a claim about the caller, and it is the reason why the kernel may read it before its wait. Over
a recorded run of several steps the contents and the address of every such argument are kept from launch to launch. One
that changes is written by somebody, and then the early read is a fault.

How to mend it: declare the argument for what it is (`activation`, `state`, …) and read it below the wait; or keep one
buffer that is written before the first launch and never again.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Finding, Location, Severity

__all__ = ["RULE", "find"]

RULE = Rule(
    id="gpu/changing-role",
    title="memory that is declared fixed changed between launches",
    severity=Severity.ERROR,
)


def find(where: Location, kernel: str, argument: str, said: str) -> Finding:
    """`said`: which launch changed it, and how."""
    return Finding(
        RULE.id,
        RULE.severity,
        said,
        where,
        why="the declared role is what excuses every read of it before the wait",
        fix=f"declare {argument} as what it is, and read it below the wait",
        identity=(kernel, argument),
    )
