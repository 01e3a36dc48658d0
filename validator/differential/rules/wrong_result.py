"""The new path computed something else than the reference on inputs that the contract allows.

The reference runs in float64, in a process of its own, from the base revision. What an honest implementation may be
off by is measured on the same input: the trusted implementation's own error, and how far the reference moves when
its inputs move by one rounding error. The finding shows the smallest input that still fails, what was expected and
what came, and where the wrong elements lie. NaN and infinities must stand where the reference has them.

How to mend it: run the printed `validator replay` command; if the input is one that callers never pass, narrow the
contract (`dims`, `domain`), which the reviewer sees.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule(
    id="differential/wrong-result",
    title="the candidate's result is not what the reference computes",
    severity=Severity.ERROR,
)
