"""The code admits more than the manifest declares.

The manifest's scope says where the path was validated; the code's own refusals say where it will run. A check of the
family admits cards that the manifest does not name; a missing check admits everything. Code that is narrower than the
manifest is only noted.

To mend it, refuse in code what the manifest does not name, or declare (and validate) what the code admits.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.isolation.scope_guards import Gap, gaps
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/wider-than-declared", "the code admits more than the manifest declares", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    manifest = context.manifest
    if manifest is None or not analysis.own:
        return
    for gap in gaps(analysis.guards, manifest.scope):
        place = gap.guard.path if gap.guard else min(analysis.own)
        yield finding(
            RULE,
            place,
            _message(gap),
            line=gap.guard.line if gap.guard else None,
            severity=_severity(gap),
            fix="refuse in code what the manifest does not name" if gap.wider else "",
            identity=(gap.dimension, *map(str, gap.wider), "/", *map(str, gap.narrower)),
        )


def _severity(gap: Gap) -> Severity:
    if not gap.wider:
        return Severity.NOTE
    # Without any check in the code the manifest alone limits the path: nothing contradicts it, nothing enforces it.
    return Severity.ERROR if gap.guard else Severity.WARNING


def _message(gap: Gap) -> str:
    if gap.guard is None:
        return f"no code refuses {gap.dimension} that the manifest does not name"
    if gap.wider:
        return f"`{gap.guard.condition}` admits {gap.dimension} that the manifest does not name: {_listed(gap.wider)}"
    return f"`{gap.guard.condition}` refuses {gap.dimension} that the manifest names: {_listed(gap.narrower)}"


def _listed(values: tuple[object, ...]) -> str:
    shown = ", ".join(map(str, values[:6]))
    return f"{shown} and {len(values) - 6} more" if len(values) > 6 else shown
