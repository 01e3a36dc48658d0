"""What changes in files that belong to everybody, line by line: few lines, which a reviewer reads in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from validator.change.model import FileChange, Hunk, MissingFile, Tree
from validator.isolation.paths import shared_files
from validator.stage import StageContext

__all__ = ["shared_lines"]

_CONTEXT = 2
_MOST_LINES = 200
_MOST_FILES = 20
_LARGEST = 1 << 20
"""Bytes of a file that is compared here."""


def shared_lines(context: StageContext) -> list[dict[str, Any]]:
    """Excerpts for the summary (`validator.report.story`), one a file; what is binary, huge or too long says so."""
    return [_excerpt(context, file) for file in list(shared_files(context))[:_MOST_FILES]]


def _excerpt(context: StageContext, file: FileChange) -> dict[str, Any]:
    at = f"{file.path}:{file.first_line}" if file.first_line else file.path
    return {"finding": "", "title": f"what changes in {file.path}", "at": at, "text": _text(context, file), "mark": 0}


def _text(context: StageContext, file: FileChange) -> str:
    if file.binary or (file.size or 0) > _LARGEST:
        return f"binary, or larger than {_LARGEST >> 20} MiB: not shown"
    old = _lines(context.change.merge_base_tree, file.old_path or file.path)
    new = _lines(context.change.head_tree, file.path)
    found = [line for hunk in file.hunks for line in _hunk(hunk, old, new)]
    left = len(found) - _MOST_LINES
    return "\n".join([*found[:_MOST_LINES], *([f"and {left:,} more lines"] if left > 0 else [])]) or "no line"


def _hunk(hunk: Hunk, old: list[str], new: list[str]) -> Iterator[str]:
    """As a unified diff shows it. The start of an empty side is the line before it, as git counts."""
    before = hunk.new_start - 1 if hunk.new_count else hunk.new_start
    first = hunk.old_start - 1 if hunk.old_count else hunk.old_start
    yield f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
    yield from (f"  {line}" for line in new[max(before - _CONTEXT, 0) : before])
    yield from (f"- {line}" for line in old[first : first + hunk.old_count])
    yield from (f"+ {line}" for line in new[before : before + hunk.new_count])
    yield from (f"  {line}" for line in new[before + hunk.new_count :][:_CONTEXT])


def _lines(tree: Tree, path: str) -> list[str]:
    try:
        return list(_decoded(tree.read(path, _LARGEST)))
    except MissingFile:
        return []


def _decoded(data: bytes) -> Iterator[str]:
    return (line.rstrip("\r") for line in data.decode("utf-8", "replace").split("\n"))
