"""The same inputs gave different results when outputs, workspaces and guard zones held something else before the call.

Either an element of the output was never written, or a workspace is used before it is set, or something is read
from outside a buffer. Such a kernel is right in a test that allocates zeroed memory and wrong in service.

How to mend it: write every element, initialise the workspace inside the kernel, mask the loads at the edges.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule(
    id="differential/depends-on-old-contents",
    title="the result depends on what stood in memory before the call",
    severity=Severity.ERROR,
)
