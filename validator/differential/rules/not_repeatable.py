"""The candidate was called again with the same values and gave other bytes.

A race, an atomic sum in changing order, or state kept between calls. The contract promises bitwise repeatability
unless it says `deterministic = "spread"`.

How to mend it: fix the order of the reduction, or declare the spread, which the reviewer sees.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule(
    id="differential/not-repeatable",
    title="the same call gives different bytes",
    severity=Severity.ERROR,
)
