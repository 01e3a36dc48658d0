"""An atomic or reduction before the wait.

An atomic reads and writes. Before the wait it can take a ticket that the previous launch has not returned, or add to
a sum that the previous kernel still clears.

Bad:  `int t = atomicAdd(ctr, 1); cudaGridDependencySynchronize(); work(t);`
Good: `cudaGridDependencySynchronize(); int t = atomicAdd(ctr, 1); work(t);`

Mend it by moving the atomic below the wait. Atomics on a `flag` synchronise and are allowed.

Not seen: whether the counter was reset by the host; declare such memory with its step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from validator.ordering.findings import early_findings
from validator.rule import Rule
from validator.verdict.model import Finding, Severity

if TYPE_CHECKING:
    from validator.ordering.facts import Facts

__all__ = ["RULE", "check"]

RULE = Rule("order/early-atomic", "an atomic runs before the wait", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per argument."""
    return early_findings(RULE, facts, "atomic", "changed atomically")
