"""A function that the manifest calls essential does nothing for the result.

The contract names the functions that do the new path's work (`essential`). In a process of its own each of them is
replaced by one that does nothing, and the candidate is called again: its result must then be wrong. Where it is still
right, something else makes it: a fallback to the stock path, a wrapped library, a kernel launched for show.

How to mend it: call what the manifest names and use what it gives; or name the function that does the work.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule(
    id="differential/decoy-kernel",
    title="the result does not rest on the kernel",
    severity=Severity.ERROR,
)
