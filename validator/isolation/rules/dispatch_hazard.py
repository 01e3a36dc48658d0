"""The choice of the path reads something that it must not read.

The choice is made on every step, on every rank. A value that is copied from the device makes the host wait each time; a
clock, a random number or the rank itself lets ranks choose differently, and then they hang in their next collective.

To mend it, decide on host state that all ranks share: configuration, the batch's shape, flags of the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/dispatch-hazard", "the choice of the path reads the device, a clock or the rank", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    for choice in analyse(context).choices:
        for hazard in choice.hazards:
            yield finding(
                RULE,
                hazard.path,
                f"the choice `{choice.condition}` is made with {hazard.what}",
                line=hazard.line,
                severity=Severity.ERROR if hazard.certain else Severity.UNPROVEN,
                fix="decide on host state that all ranks share",
                identity=(hazard.path, hazard.what),
            )
