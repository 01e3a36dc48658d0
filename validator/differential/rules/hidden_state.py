"""The candidate is right in one order of calls and wrong in another.

Seen by calling it with new values in the same buffers, with a single element changed, with other sizes in between,
as the first call of a process, and by looking at earlier results again after later calls. Caches keyed by pointer,
shape or a sample of the content, results computed once, and one buffer returned every time all show here.

How to mend it: compute from the arguments alone, every time.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule(
    id="differential/hidden-state",
    title="the result depends on earlier calls",
    severity=Severity.ERROR,
)
