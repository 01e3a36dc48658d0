"""An asynchronous copy (cp.async, bulk, tensor) before the wait, of memory that an earlier kernel may still write.

The copy reads global memory from the moment it is issued. Waiting for the copy after the grid wait does not help:
the bytes were taken before.

Bad:  `cp.async [smem], [act]; griddepcontrol.wait; cp.async.wait_group 0;`
Good: `cp.async [smem], [w]; griddepcontrol.wait; cp.async [smem2], [act]; cp.async.wait_group 0;`

Mend it by issuing the copy below the wait; weights may stay above.

Not seen: which part of memory a tensor map describes; the whole argument counts.
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

RULE = Rule("order/early-async-copy", "an asynchronous copy is issued before the wait", Severity.ERROR)


def check(facts: Facts) -> Iterable[Finding]:
    """One finding per argument copied early."""
    return early_findings(RULE, facts, "async-copy", "copied asynchronously")
