"""The change edits a waiver.

Waivers are read from the base revision, so one that the change brings covers nothing in it. A waiver is a maintainer's
decision about a finding that exists; it is merged on its own, and then the change is checked again. The edited
file is parsed, and its errors are reported.

To mend it, take the waiver out and ask a maintainer to merge it first.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.errors import ValidatorError
from validator.gate.files import after, deed, touched
from validator.policy.waivers import load_waivers
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("gate/waiver-edited", "waiver edited by the change it would cover", Severity.ERROR, waivable=False)


def check(context: StageContext) -> Iterator[Finding]:
    for file in touched(context, context.policy.trusted.waivers):
        data = after(context, file)
        steps: tuple[str, ...] = ()
        if data is not None and file.path.endswith(".toml"):
            try:
                steps = tuple(f"{w.finding} until {w.expires}: {w.reason}" for w in load_waivers({file.path: data}))
            except ValidatorError as error:
                steps = tuple(f"cannot be read: {problem}" for problem in error.problems)
        yield finding(
            RULE,
            file.path,
            f"{deed(file)}, a waiver file",
            line=file.first_line,
            why="a change must not excuse itself; its waivers count from the next change on",
            fix="take it out and ask a maintainer to merge it first",
            steps=steps,
        )
