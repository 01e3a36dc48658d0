"""A read of memory that an earlier kernel may still be writing, before anything orders it.

With programmatic dependent launch a kernel starts while its predecessor runs. What it reads before
`griddepcontrol.wait` (or before a barrier behind a thread that has waited) may be the old value. Functional tests do
not show it: the predecessor is almost always done.

Bad:  `float a = act[i]; cudaGridDependencySynchronize(); out[i] = a * w[i];`
Good: `float b = w[i]; cudaGridDependencySynchronize(); out[i] = act[i] * b;`

Mend it by moving the read below the wait. If the read stands below it in the source, a compiler moved it: load with
plain `ld.global` instead of `__restrict__`, `__ldg` or an invariant copy. If nothing that may still run writes the
memory, declare it `weight`, or `stable` with a justification. For data that a flag publishes (`guarded_by`), the poll
of that flag takes the place of the wait.

Not seen: whether a `weight` really is one. That is the caller's word.
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

RULE = Rule("order/early-read", "memory is read before the wait that makes it valid", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per argument read early."""
    return early_findings(RULE, facts, "read", "read")
