"""The change makes a file executable.

An executable file in the tree is one that a build script, a hook or a person may start. Kernels, models and tests need
no such bit. Policy lists where it may be set (`isolation.executable`). A file that was executable before may stay so.

To mend it: `git update-index --chmod=-x FILE`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from validator.change.model import FileKind
from validator.checks import finding
from validator.globs import matches
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/executable-bit", "file made executable", Severity.ERROR)


def check(context: StageContext) -> Iterator[Finding]:
    for file in context.change.files:
        new = bool(file.new_id) and file.kind is FileKind.EXECUTABLE and file.old_kind is not FileKind.EXECUTABLE
        if new and not matches(file.path, context.policy.isolation.executable):
            yield finding(
                RULE,
                file.path,
                f"{file.path} is made executable",
                why="a build script, a hook or a person may start it",
                fix=f"git update-index --chmod=-x -- {shlex.quote(file.path)}",
            )
