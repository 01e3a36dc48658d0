"""The candidate raised, crashed, hung, ran out of memory, broke the protocol or ended without an answer.

It runs confined, in a process of its own; the finding names how it ended. A case that has no result is a failure,
whatever the others say.

How to mend it: run the printed `validator replay` command. If it called the function it is compared with, implement
the path.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule(
    id="differential/no-result",
    title="the candidate gave no result",
    severity=Severity.ERROR,
)
