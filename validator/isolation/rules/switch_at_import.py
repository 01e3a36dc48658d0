"""The switch is read from the environment when a module is loaded.

Then it depends on who imports what first, a test cannot turn it off again, and two engines in one process cannot
differ.

To mend it, read it where the path is chosen: in the constructor, or in a function that the constructor calls.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/switch-at-import", "the switch is read when a module is loaded", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    for use in analysis.uses:
        if use.at_import and use.what == "environment read" and not analysis.is_test(use.path):
            yield finding(
                RULE,
                use.path,
                f"{use.path} reads the switch from the environment when it is loaded",
                line=use.line,
                fix="read it in the function that chooses the path",
                identity=(use.path,),
            )
