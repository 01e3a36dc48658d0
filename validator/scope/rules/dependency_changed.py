"""The change edits what is installed.

A new or moved dependency reaches everybody who installs the project, switch or not; and what is installed beside a
test can decide what the test sees. Policy lists such files (`dependencies.files`) and which of them a fast-track change
may edit (`dependencies.allowed`).

To mend it, send the dependency as an ordinary change first, or make it optional in a file that policy allows.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.globs import matches
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("scope/dependency-changed", "file edited that decides what is installed", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    policy = context.policy.dependencies
    for file in context.change.files:
        touched = [p for p in file.paths if matches(p, policy.files) and not matches(p, policy.allowed)]
        if touched:
            yield finding(
                RULE,
                file.path,
                f"{touched[0]} decides what is installed (+{file.added} -{file.deleted} lines)",
                line=file.first_line,
                why="it reaches everybody who installs the project, whether the switch is on or off",
                fix="send the dependency as an ordinary change first, or make it optional where policy allows",
            )
