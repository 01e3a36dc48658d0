"""The contract asks for a tolerance that the base revision's policy does not grant this kernel.

The change is judged with the policy's tolerance instead. Fixed absolute or relative tolerances hold only where a
policy gives them: a number that is right for one input hides errors in another.

How to mend it: drop `tolerance` from the manifest, or have the policy changed first, in a change of its own.
"""

from __future__ import annotations

from validator.rule import Rule
from validator.verdict.model import Severity

__all__ = ["RULE"]

RULE = Rule(
    id="differential/tolerance-too-wide",
    title="the manifest asks for a wider tolerance than policy allows",
    severity=Severity.UNPROVEN,
)
