"""The change adds, moves or removes a submodule.

A submodule is a commit of another repository: all of its code comes along, from an address that can change, and none of
it is in the diff. There is no place in policy where a fast-track change may do that.

To mend it, take the submodule out and send it as an ordinary change.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.change.model import FileKind
from validator.checks import finding
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/submodule", "submodule added, moved or removed", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    for file in context.change.files:
        before = file.old_id if file.old_kind is FileKind.SUBMODULE else ""
        after = file.new_id if file.new_id and file.kind is FileKind.SUBMODULE else ""
        if before == after:
            continue
        what = "is moved to" if before and after else "is added at" if after else "is removed from"
        yield finding(
            RULE,
            file.path,
            f"submodule {file.path} {what} commit {(after or before)[:12]}",
            why="code from another repository comes or goes, and none of it is in the diff",
            fix="take it out and send it as an ordinary change",
            identity=(file.path, before, after),
        )
