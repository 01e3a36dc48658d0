"""Code outside loads the isolated package although the switch is off.

Loading a module runs it: it allocates, registers, imports its own dependencies and fails where they are missing. The
isolated package must be loaded only once the switch is known to be on. An import at module level, in a class body or in
an unguarded function runs for everybody; one under `TYPE_CHECKING` never runs and is fine.

To mend it, move the import into the branch that the switch guards.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.isolation.blast.imports import When
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/leak", "the isolated package is loaded with the switch off", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    for found in analysis.radius.inward:
        if found.when is When.EAGER and not analysis.is_test(found.path):
            name = f"{found.module}.{found.name}" if found.name else found.module
            yield finding(
                RULE,
                found.path,
                f"{found.path} imports `{name}` when it is loaded itself",
                line=found.line,
                why="whoever loads this module loads the isolated package with it, whatever the switch says",
                fix="move the import into the branch that the switch guards, or under `if TYPE_CHECKING:`",
                identity=(found.path, name),
            )
