"""The change brings a symbolic link.

A link makes a path mean another file than the one a reviewer sees: an isolated path can lead into shared code, or out
of the repository into the machine that builds it. Policy lists where links may be (`isolation.symlinks`); one that
leaves the repository is refused even there.

To mend it, commit the file itself, or import from where it lives.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator

from validator.change.model import FileKind
from validator.checks import finding
from validator.globs import matches
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/symlink", "symbolic link", Severity.ERROR)

_TARGET_BYTES = 4096
"""Longest path a system resolves (PATH_MAX)."""


def check(context: StageContext) -> Iterator[Finding]:
    for file in context.change.files:
        if not file.new_id or file.kind is not FileKind.SYMLINK:
            continue
        if file.size is not None and file.size > _TARGET_BYTES:
            target, leaves = "a target too long for any system", True
        else:
            target = os.fsdecode(context.change.head_tree.read(file.path, _TARGET_BYTES))
            leaves = _leaves(file.path, target)
        if leaves or not matches(file.path, context.policy.isolation.symlinks):
            where = ", outside the repository" if leaves else ""
            yield finding(
                RULE,
                file.path,
                f"{file.path} is a symbolic link to {target}{where}",
                why="the path means another file than the one a reviewer sees",
                fix="commit the file itself, or import from where it lives",
                identity=(file.path, target),
            )


def _leaves(path: str, target: str) -> bool:
    """Whether the target is outside the tree (or inside `.git`), going by names alone."""
    place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    first = place.split("/", 1)[0]
    return target.startswith("/") or first == ".." or first.casefold() == ".git"
