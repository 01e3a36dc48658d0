"""Several launches, or ranks, make one result, and it is another one when they come in another order.

The contract says that the candidate is called once for each launch on the same buffers (`launches`). Nothing orders
launches on different streams, grids that may overlap, or ranks; so they are made from the first to the last, from the
last to the first and in a drawn order. Every order must give what the reference gives, and the same bytes unless the
contract says `deterministic = "spread"`.

How to mend it: give every launch a part of the buffer of its own and reduce in a fixed order, or order the launches by
what they wait for; if the order is guaranteed, it is one launch to the contract: drop `launches`.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule(
    id="differential/depends-on-order",
    title="the result depends on the order of launches or ranks",
    severity=Severity.ERROR,
)
