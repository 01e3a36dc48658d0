"""A path holds characters that a reader cannot see, or is not what it looks like.

Newlines, escape sequences, bytes that are not UTF-8, zero-width or direction-changing characters in a file name make a
report show one name and mean another, and confuse the tools that read it. Names that some systems take for `.git` are
refused for the same reason, and so are two names that differ in case only: on many machines they are one file.

To mend it, rename the file with letters, digits, `.`, `_` and `-`.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.rule import Rule
from validator.stage import StageContext
from validator.text import visible
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/unreadable-path", "path that a reader cannot read", Severity.ERROR)

_GIT_NAMES = frozenset({".git", "git~1"})
"""What case-insensitive and 8.3 file systems take for the repository's own folder."""


def check(context: StageContext) -> Iterator[Finding]:
    for file in context.change.files:
        if not file.new_id:
            continue
        reason = _reason(file.path) or _twin(context, file.path)
        if reason:
            yield finding(
                RULE,
                file.path,
                f"the path {file.path} {reason}",
                why="reports, tools and file systems may take it for another file",
                fix="rename it with letters, digits, `.`, `_` and `-`",
            )


def _reason(path: str) -> str:
    if visible(path) != path:
        return "holds characters that a reader cannot see"
    if any(part.rstrip(". ").casefold() in _GIT_NAMES for part in path.split("/")):
        return "is taken for the repository's own folder on some systems"
    return ""


def _twin(context: StageContext, path: str) -> str:
    """Another file of the same folder whose name differs in case only."""
    folder = path.rpartition("/")[0]
    twins = context.change.head_tree.names(folder)
    name = path.rpartition("/")[2]
    other = next((n for n in twins if n != name and n.casefold() == name.casefold()), None)
    return f"differs from {other} in case only" if other else ""
