"""Mutants of the reference were judged like the candidate, and no case told these from the right result.

A mutant stands for a mistake: a weight skipped, cut to three mantissa bits, its tail dropped, a scalar ten times
larger. If every case accepts one, the candidate may hold that very mistake.

How to mend it: narrow the tolerance, or widen the domain so that the term dominates somewhere.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule(
    id="differential/blind-tolerance",
    title="some mistakes would pass the tolerance",
    severity=Severity.WARNING,
)
