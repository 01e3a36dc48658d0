"""A path holds characters that a reader cannot see, or is not what it looks like.

Newlines, escape sequences, bytes that are not UTF-8, zero-width or direction-changing characters in a file name make a
report show one name and mean another, and confuse the tools that read it. Names that some systems take for `.git` are
refused for the same reason, and so are two names in one folder, of files or of folders, that differ in case only or in
how their letters are composed: on many machines they are one file. Two that the base holds already are left alone.

To mend it, rename the file with letters, digits, `.`, `_` and `-`.
"""

from __future__ import annotations

from collections.abc import Iterator

from validator.checks import finding
from validator.rule import Rule
from validator.stage import StageContext
from validator.text import folded, visible
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/unreadable-path", "path that a reader cannot read", Severity.ERROR)

_GIT_NAMES = frozenset({".git", "git~1"})
"""What case-insensitive and 8.3 file systems take for the repository's own folder."""


def check(context: StageContext) -> Iterator[Finding]:
    twins = _Twins(context)
    for file in context.change.files:
        if not file.new_id:
            continue
        reason = _reason(file.path) or twins.reason(file.path)
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


class _Twins:
    """Names of one folder that some file systems take for one; every folder is looked through once."""

    def __init__(self, context: StageContext) -> None:
        self._head, self._before = context.change.head_tree, context.change.merge_base_tree
        self._folders: dict[str, dict[str, str]] = {}

    def reason(self, path: str) -> str:
        """What the file or a folder above it is taken for; empty: nothing."""
        folder = ""
        for name in path.split("/"):
            other = self._of(folder).get(name)
            if other is not None:
                here = f"{folder}/{name}".lstrip("/")
                what = "" if here == path else "lies in a folder that "
                how = "in case only" if name.casefold() == other.casefold() else "in how its letters are composed only"
                return f"{what}differs from {other} {how}"
            folder = f"{folder}/{name}".lstrip("/")
        return ""

    def _of(self, folder: str) -> dict[str, str]:
        """Name → another one that is taken for it, where the change brought one of the two."""
        if folder not in self._folders:
            alike: dict[str, list[str]] = {}
            for name in self._head.names(folder):
                alike.setdefault(folded(name), []).append(name)
            several = [names for names in alike.values() if len(names) > 1]
            before = set(self._before.names(folder)) if several else set()
            self._folders[folder] = {
                name: next(other for other in names if other != name)
                for names in several
                if not before.issuperset(names)
                for name in names
            }
        return self._folders[folder]
