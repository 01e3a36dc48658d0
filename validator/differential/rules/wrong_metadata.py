"""A result with the wrong shape, element type, strides or number of values, or one that shares memory with an input.

Values are not compared before the form is right: broadcasting would hide the difference.

How to mend it: return what the contract declares, or correct `shape`, `dtype`, `layouts` and `returns` in the
manifest.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule(
    id="differential/wrong-metadata",
    title="the candidate's result has another shape, type or layout than declared",
    severity=Severity.ERROR,
)
