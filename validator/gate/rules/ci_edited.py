"""The change edits what runs in CI, who reviews, or what a review shows.

Workflow files decide which checks run and whether this one does; CODEOWNERS decides who must agree; `.gitattributes`
can hide files from a review's diff. Policy lists such files (`trusted.ci`). New ones count as well as edited ones.

To mend it, take the edit out and send it as an ordinary change.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.gate.files import deed, touched
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("gate/ci-edited", "CI or review settings edited", Severity.ERROR, waivable=False)


def check(context: StageContext) -> Iterator[Finding]:
    for file in touched(context, context.policy.trusted.ci):
        yield finding(
            RULE,
            file.path,
            f"{deed(file)}, which decides what is checked or who reviews",
            line=file.first_line,
            why="a change that steers the gate can pass it by not being checked",
            fix="take it out and send it as an ordinary change",
        )
