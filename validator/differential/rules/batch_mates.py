"""One row of the batch was kept and all others were replaced by extremes; the row's result moved.

The contract declares the rows independent (`batch`). A shared scale, a reduction over the wrong axis or an index
that reaches into a neighbour makes one user's output depend on another's input.

How to mend it: reduce within the row; remove `batch` from the contract only if the rows are meant to interact.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule(
    id="differential/depends-on-batch-mates",
    title="a row's result depends on the other rows of the batch",
    severity=Severity.ERROR,
)
