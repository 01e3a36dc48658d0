"""The isolated package uses a private name of somebody else.

A name with a leading underscore carries no promise: the next release of that package may rename it, and this path
breaks while nobody looks at it. Listed with the requirement that fixes the version, or without one where nothing does.

To mend it, use the public name; or pin the version and say so in the manifest.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/private-name", "private name of another package", Severity.NOTE)


def check(context: StageContext) -> Iterator[Finding]:
    for use in analyse(context).radius.private:
        if use.third_party:
            version = f"fixed by `{use.pin}`" if use.pin else "whose version nothing fixes"
            message = f"{use.path} uses `{use.name}` of a package {version}"
        else:
            message = f"{use.path} uses `{use.name}`, which is private"
        unfixed = use.third_party and "==" not in use.pin
        yield finding(
            RULE,
            use.path,
            message,
            line=use.line,
            severity=Severity.WARNING if unfixed else Severity.NOTE,
            identity=(use.path, use.name),
        )
