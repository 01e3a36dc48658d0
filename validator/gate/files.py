"""Files that judge a change, and how the change touches them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from validator.change.model import ChangeStatus, FileChange, FileKind, MissingFile, Tree
from validator.globs import matches
from validator.stage import StageContext
from validator.text import folded

__all__ = ["MAX_SOURCE", "after", "before", "deed", "existed", "means", "read_source", "touched"]

MAX_SOURCE = 1024 * 1024
"""Bytes of a file that is parsed to say *how* it was edited; a larger one is simply edited."""

_VERBS = {
    ChangeStatus.ADDED: "adds",
    ChangeStatus.MODIFIED: "edits",
    ChangeStatus.DELETED: "deletes",
    ChangeStatus.TYPE_CHANGED: "replaces",
}


_FOLDERS = (FileKind.SYMLINK, FileKind.SUBMODULE)
"""What can stand where a folder is expected."""


def touched(context: StageContext, globs: Sequence[str], but: Sequence[str] = ()) -> Iterator[FileChange]:
    """Changed files of which any name is meant by `globs` and not by `but`."""
    for file in context.change.files:
        if any(means(file, path, globs) and not means(file, path, but) for path in file.paths):
            yield file


def means(file: FileChange, path: str, globs: Sequence[str]) -> bool:
    """Whether the globs mean a changed file under one of its names: also in other letters, which some file systems do
    not tell apart, and as a link or a submodule in a folder's place."""
    names = [path, f"{path}/."] if file.kind in _FOLDERS else [path]
    return any(matches(n, globs) for n in names) or any(matches(folded(n), map(folded, globs)) for n in names)


def existed(context: StageContext, file: FileChange) -> bool:
    """Whether the file was there before the change: at the merge base, or since then at the base."""
    return bool(file.old_id) or context.change.base_tree.entry(file.path) is not None


def deed(file: FileChange) -> str:
    """What the change does to a file: `the change edits a.py`."""
    if file.status is ChangeStatus.RENAMED:
        return f"the change moves {file.old_path} to {file.path}"
    return f"the change {_VERBS[file.status]} {file.path}"


def read_source(tree: Tree, path: str | None) -> bytes | None:
    """A file that is about to be parsed; None when it is absent or too large."""
    try:
        return None if path is None else tree.read(path, MAX_SOURCE)
    except MissingFile:
        return None


def before(context: StageContext, file: FileChange) -> bytes | None:
    """Content at the merge base."""
    return read_source(context.change.merge_base_tree, (file.old_path or file.path) if file.old_id else None)


def after(context: StageContext, file: FileChange) -> bytes | None:
    """Content at the head."""
    return read_source(context.change.head_tree, file.path if file.new_id else None)
