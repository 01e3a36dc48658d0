"""The isolated package stores into something outside itself.

A method that is replaced, a table that gets an entry, an environment variable that is set: it stays for everything else
in the process, other models included, and no reader of the shared code can see it.

To mend it, subclass or wrap instead, and hand the new object to the caller through the entry point.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.isolation.analysis import analyse
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/monkeypatch", "the isolated package changes something outside itself", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    analysis = analyse(context)
    for patch in analysis.radius.patches:
        if analysis.is_test(patch.path):
            continue
        when = "when it is loaded" if patch.at_import else "when it runs"
        yield finding(
            RULE,
            patch.path,
            f"{patch.path} changes `{patch.target}`, which belongs to others, {when}",
            line=patch.line,
            why="it stays changed for everything else in the process",
            fix="subclass or wrap, and hand the new object out through the entry point",
            identity=(patch.path, patch.target),
        )
