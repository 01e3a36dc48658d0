"""A module of the isolated package does something when it is loaded, besides defining things.

A registration, a store into somebody else's object, an environment variable, a call: it happens to whoever loads the
module, in the order of imports, and the switch no longer decides. Definitions, constants, loggers, type variables and
`triton.jit` or `cute.jit` kernels are fine.

To mend it, move it into a function that runs once the switch is on.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.isolation.effects import import_effects
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/import-side-effect", "loading the isolated package has a side effect", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    for path in sorted(analysis.own):
        source = analysis.head.parse(path)
        if source.module is None:
            continue
        for effect in import_effects(source, analysis.names.at(path)):
            yield finding(
                RULE,
                path,
                f"{path} {effect.what} when it is loaded",
                line=effect.line,
                severity=Severity.ERROR if effect.certain else Severity.WARNING,
                fix="move it into a function that runs once the switch is on",
                identity=(path, effect.what),
            )
