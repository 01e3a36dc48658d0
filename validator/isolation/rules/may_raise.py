"""Something is evaluated with the switch off, is not used there, and may raise an error.

`if self.confg.fused is None:` decides the right way and fails before it does: the attribute is misspelt. Whatever runs
with the switch off only to be left aside (a condition, a value that nothing reads, a store that nothing looks at) has
to be shown to work: its names are bound, its attributes are set by every constructor or were read a moment before, its
keys are there. Annotations count, and are listed as assumptions. What is left over is unproven, with the expression.

To mend it, read the switch first and the rest behind it (`if config.switch and x.shape[0] == 1:`), annotate the
parameter that it is read from, or set the attribute in the constructor.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/may-raise", "evaluated with the switch off, and may raise", Severity.UNPROVEN)


def check(context: StageContext) -> Iterator[Finding]:
    for proof in analyse(context).proofs:
        for shown in proof.differences:
            place = shown.difference
            if place.raises:
                yield finding(
                    RULE,
                    proof.path,
                    place.reason,
                    line=place.line,
                    why="check that it always works; whoever leaves the switch alone runs it",
                    fix="read the switch first, annotate what it is read from, or set it in the constructor",
                    identity=(proof.path, place.inside, place.reason),
                )
