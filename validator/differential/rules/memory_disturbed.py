"""Bytes changed that the candidate has no business with: an input, the guard zone beside a buffer, or a gap between
rows.

Every buffer stands between guard zones that are compared byte by byte after each call; inputs must come back
unchanged unless their role or `inplace = true` says otherwise.

How to mend it: check the bounds at ragged tails; declare `inplace = true` if callers expect the change.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule(
    id="differential/memory-disturbed",
    title="the candidate wrote where it must not",
    severity=Severity.ERROR,
)
