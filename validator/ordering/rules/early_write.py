"""A write before the wait, to memory that the previous kernel may still read or write.

A store before `griddepcontrol.wait` can overwrite what the predecessor has not read yet, and the predecessor's own
late stores can overwrite it. Bulk and tensor stores count as writes.

Bad:  `tmp[i] = 0; cudaGridDependencySynchronize(); …`
Good: `cudaGridDependencySynchronize(); tmp[i] = 0; …`

Mend it by moving the store below the wait, or give the step's launch order (`[[steps]]`) if no launch that may still
run touches the buffer.

Not seen: two arguments that the caller passes the same memory without saying so (`alias_of`).
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

RULE = Rule("order/early-write", "memory is written before the wait", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per argument written early."""
    return early_findings(RULE, facts, "write", "written")
