"""Code outside reaches the isolated package, and nothing there reads the declared switch.

The manifest's switch then guards nothing: what turns the path on is something else, and its default is unknown.

To mend it, read the declared switch where the path is chosen, or name in the manifest what is read there.
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

RULE = Rule("isolation/switch-not-read", "nothing reads the declared switch", Severity.UNPROVEN)


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    if analysis.switch is None or any(use.what != "definition" for use in analysis.uses):
        return
    doors = [i for i in analysis.radius.inward if i.when is not When.TYPE_CHECKING and not analysis.is_test(i.path)]
    if doors:
        yield finding(
            RULE,
            doors[0].path,
            f"nothing reads `{analysis.switch.name}`, and {doors[0].path} reaches the isolated package",
            line=doors[0].line,
            fix="read the switch where the path is chosen",
        )
