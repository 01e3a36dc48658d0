"""Where code outside reaches the isolated package, when, and behind which conditions.

The doors of the package, for the reviewer: each import of something inside by something outside, with the function it
stands in and the conditions around it. Nothing here is wrong by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.isolation.blast.imports import Import
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/entry", "door into the isolated package", Severity.NOTE)


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    for found in analysis.radius.inward:
        if not analysis.is_test(found.path):
            yield finding(
                RULE,
                found.path,
                f"{found.path} reaches `{_target(found)}` {found.when.value}",
                line=found.line,
                steps=_path(found),
                identity=(found.path, found.inside, _target(found)),
            )


def _target(found: Import) -> str:
    return f"{found.module}:{found.name}" if found.name else found.module


def _path(found: Import) -> tuple[str, ...]:
    """From the file to the package, one arrow a line."""
    inside = (f"  └ in `{found.inside}`",) if found.inside else ()
    guards = tuple(f"  └ if `{guard}`" for guard in found.guards)
    return (found.path, *inside, *guards, f"  └▶ {_target(found)} ({found.when.value})")
