"""Code outside calls into the isolated package where the manifest declares no entry.

The manifest's `isolation.entry_points` are the doors of the package (`module:name`). A reviewer looks at these and at
the conditions around them, and at nothing else inside. A second door would not be looked at.

To mend it, go through a declared entry point, or declare this one.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.isolation.blast.imports import Import, When
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check", "declared"]

RULE = Rule("isolation/undeclared-entry", "call into the isolated package past its entry points", Severity.ERROR)


def declared(found: Import, entries: tuple[str, ...]) -> bool:
    """Whether an import goes through a declared entry point."""
    for entry in entries:
        module, _, name = entry.partition(":")
        if found.module == module and (not found.name or not name or found.name == name.split(".")[0]):
            return True
        if found.name and f"{found.module}.{found.name}" == module:
            return True
    return False


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    if context.manifest is None:
        return
    entries = context.manifest.isolation.entry_points
    for found in analysis.radius.inward:
        if found.when is When.TYPE_CHECKING or analysis.is_test(found.path) or declared(found, entries):
            continue
        name = f"{found.module}:{found.name}" if found.name else found.module
        yield finding(
            RULE,
            found.path,
            f"{found.path} reaches `{name}`, which is not among the manifest's entry points",
            line=found.line,
            severity=Severity.ERROR if entries else Severity.WARNING,
            fix=f'add "{name}" to `isolation.entry_points`, or go through one that stands there',
            identity=(found.path, name),
        )
