"""The switch is not off by default, or not for everybody.

The manifest says what the switch is when nobody sets it. Where the code defines or reads it, the default written there
has to be the same, and a constant: one that is computed from the hardware or the environment is on for some.

To mend it, write the default that the manifest declares.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/switch-not-off", "the switch is on by default", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    if analysis.switch is None:
        return
    declared = analysis.switch.default
    for cause in (c for proof in analysis.proofs for c in proof.causes):
        yield finding(
            RULE,
            cause.path,
            f"with the switch off, `{cause.function}` may {cause.gives}",
            line=cause.line,
            why="what it lets through runs for people who never asked for it",
            fix="give the same answer for every way of being off: key absent, container absent, default",
            identity=(cause.path, cause.function, cause.gives),
        )
    for use in analysis.uses:
        if use.agrees or analysis.is_test(use.path):
            continue
        how = "is not a constant" if use.agrees is None else f"is not the manifest's {declared!r}"
        yield finding(
            RULE,
            use.path,
            f"the default of `{analysis.switch.name}`, {use.default}, {how}",
            line=use.line,
            why="the new path runs for people who never asked for it",
            fix=f"write {declared!r}, or say in the manifest's `default` what off is",
            identity=(use.path, use.what, use.default),
        )
