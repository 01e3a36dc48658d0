"""The isolated package and other modules load each other.

In a cycle the order in which modules are loaded decides what is defined when, and the package cannot be removed or
loaded alone. Imports under `TYPE_CHECKING` and inside functions do not close a cycle.

To mend it, move one of the imports into the function that needs it, or under `if TYPE_CHECKING:`.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.isolation.blast.imports import When, imports_of
from validator.isolation.blast.radius import target_path
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/import-cycle", "import cycle through the isolated package", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    for group in analysis.radius.cycles:
        members = set(group)
        edges = [
            i
            for path in group
            for i in imports_of(analysis.head, path)
            if i.when is When.EAGER and (to := target_path(analysis.head, i)) in members and to != path
        ]
        # The byte scan also sees text in strings: the cycle must stand in the syntax trees.
        if {e.path for e in edges} != members:
            continue
        first = next((e for e in edges if e.path in analysis.own), edges[0])
        yield finding(
            RULE,
            first.path,
            f"these load each other: {', '.join(group[:6])}{' …' if len(group) > 6 else ''}",
            line=first.line,
            fix="move the import into the function that needs it, or under `if TYPE_CHECKING:`",
            identity=group,
        )
