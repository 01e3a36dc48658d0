"""The change adds something that takes effect with the switch off.

A dependency is installed for everybody, a build target is built for everybody, an entry point of the distribution is
loaded by whoever lists its group. The switch guards none of them. Other additions (operators, environment variables,
optional dependencies) are listed as notes.

To mend it, make the dependency optional and load it behind the switch; leave out the entry point; or send the addition
as an ordinary change first.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/added-for-everybody", "an addition that the switch does not guard", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    for added in analyse(context).additions:
        yield finding(
            RULE,
            added.path,
            f"{'' if added.kind.endswith(' gone') else 'new '}{added.kind}: {added.name}",
            line=added.line,
            severity=Severity.ERROR if added.for_everybody else Severity.NOTE,
            why="it takes effect whatever the switch says" if added.for_everybody else "",
            fix="make it optional, or send it as an ordinary change first" if added.for_everybody else "",
            identity=(added.path, added.kind, added.name),
        )
