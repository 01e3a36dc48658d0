"""What differs between two trees: paths, modes, renames and line counts from `git diff-tree`, by object ids only."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO

from validator.change.model import AbsentObject, ChangeError, ChangeStatus, FileChange, Hunk, kind_of
from validator.change.objects import ABSENT, FETCH, MAX_DEPTH, Node, Objects
from validator.change.plumbing import Git
from validator.errors import Problem

__all__ = ["diff_trees"]

MAX_FILES = 100_000
"""Paths one change may touch."""
MAX_HUNKS = 2_000_000
"""Hunks one change may have, all files together."""
RENAME_BYTES = 64 * 1024 * 1024
"""Bytes up to which similar (not just identical) files are paired as renames: git reads them whole."""
RENAME_FILES = 400
"""The same for their number: pairing is quadratic."""

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_INDEX = re.compile(rb"index ([0-9a-f]{40,64})\.\.([0-9a-f]{40,64})")
_TREE_DIFF = ("diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")


@dataclass(frozen=True, slots=True)
class _Raw:
    """One record of `--raw -z`."""

    status: ChangeStatus
    path: str
    old_path: str | None
    old_mode: int
    new_mode: int
    old_id: str
    new_id: str


@dataclass(slots=True)
class _Text:
    """Line diff of one pair of blobs."""

    binary: bool = False
    hunks: list[Hunk] = field(default_factory=list)


def diff_trees(git: Git, objects: Objects, old: str, new: str) -> tuple[tuple[FileChange, ...], tuple[str, ...]]:
    """Changed files by path, and notes on what was not searched. `old`, `new`: commit or tree ids in full."""
    raws = list(_walk(objects, objects.root(old), objects.root(new)))
    sizes = objects.headers(i for raw in raws for i in _blobs(raw))
    missing = sorted({raw.path for raw in raws for i in _blobs(raw) if sizes[i] is None})
    if missing:
        raise AbsentObject(*(Problem("its content is not in the repository", path, FETCH) for path in missing[:10]))
    renames, notes = _rename_search(raws, {i: found[1] for i, found in sizes.items() if found})
    if renames != "--no-renames":
        raws = list(_raw(git, renames, old, new))
    with git.stream(*_TREE_DIFF, renames, "-p", "-U0", "--full-index", old, new) as patch:
        texts = _texts(patch)
    files = (_file(raw, texts, sizes) for raw in raws)
    return tuple(sorted(files, key=lambda file: file.path)), notes


def _walk(objects: Objects, old: str, new: str) -> Iterator[_Raw]:
    """Changed paths without renames, tree by tree: only trees that differ are read.

    git would do the same, but builds the whole list before it prints any of it, and a few hundred bytes of nested trees
    can describe billions of files.
    """
    for count, raw in enumerate(_changed(objects, "", old, new, 0)):
        if count == MAX_FILES:
            raise ChangeError(Problem(f"the change touches more than {MAX_FILES:,} files", fix="split it"))
        yield raw


def _changed(objects: Objects, folder: str, old: str, new: str, depth: int) -> Iterator[_Raw]:
    if depth > MAX_DEPTH:
        raise ChangeError(Problem(f"folders are nested more than {MAX_DEPTH} deep", folder))
    before = objects.tree(old) if old else {}
    after = objects.tree(new) if new else {}
    for name in sorted({*before, *after}):
        one, other = before.get(name, ABSENT), after.get(name, ABSENT)
        if one == other:
            continue
        path = f"{folder}/{name}" if folder else name
        if one.is_tree or other.is_tree:
            yield from _changed(objects, path, one.id * one.is_tree, other.id * other.is_tree, depth + 1)
        files = [node if not node.is_tree else ABSENT for node in (one, other)]
        if files != [ABSENT, ABSENT]:
            yield _Raw(_status(*files), path, None, files[0].mode, files[1].mode, files[0].id, files[1].id)


def _status(old: Node, new: Node) -> ChangeStatus:
    if old is ABSENT or new is ABSENT:
        return ChangeStatus.ADDED if old is ABSENT else ChangeStatus.DELETED
    same = old.mode & 0o170000 == new.mode & 0o170000
    return ChangeStatus.MODIFIED if same else ChangeStatus.TYPE_CHANGED


def _raw(git: Git, renames: str, old: str, new: str) -> Iterator[_Raw]:
    """Changed paths with renames: `:<old mode> <new mode> <old id> <new id> <status>`, then one or two paths."""
    with git.stream(*_TREE_DIFF, renames, "--raw", "-z", "--no-abbrev", old, new) as output:
        fields = _fields(output)
        for record in fields:
            old_mode, new_mode, old_id, new_id, status = record.decode("ascii").lstrip(":").split(" ")
            path = os.fsdecode(next(fields))
            renamed = status[0] in "RC"
            yield _Raw(
                ChangeStatus(status[0]),
                os.fsdecode(next(fields)) if renamed else path,
                path if renamed else None,
                int(old_mode, 8),
                int(new_mode, 8),
                _absent(old_id),
                _absent(new_id),
            )


def _fields(output: IO[bytes]) -> Iterator[bytes]:
    """NUL-terminated fields of a stream."""
    rest = b""
    while chunk := output.read(1 << 16):
        *fields, rest = (rest + chunk).split(b"\0")
        yield from fields
        if len(rest) > 1 << 20:
            raise ChangeError(Problem("a path is longer than 1 MiB"))


def _absent(object_id: str) -> str:
    return object_id if object_id.strip("0") else ""


def _blobs(raw: _Raw) -> Iterator[str]:
    """Ids of the blobs a record speaks of: a submodule's id is a commit elsewhere."""
    for mode, object_id in ((raw.old_mode, raw.old_id), (raw.new_mode, raw.new_id)):
        if object_id and mode & 0o170000 != 0o160000:
            yield object_id


def _rename_search(raws: Iterable[_Raw], sizes: dict[str, int]) -> tuple[str, tuple[str, ...]]:
    """How to look for renames so that no large file is read and the work stays linear in the change."""
    one_sided = [raw for raw in raws if raw.status in (ChangeStatus.ADDED, ChangeStatus.DELETED)]
    if {raw.status for raw in one_sided} != {ChangeStatus.ADDED, ChangeStatus.DELETED}:
        return "--no-renames", ()
    size = sum(sizes.get(i, 0) for raw in one_sided for i in _blobs(raw))
    if size > RENAME_BYTES or len(one_sided) > RENAME_FILES:
        return "-M100%", ("the change is large: only identical files are shown as renamed, not similar ones",)
    return "-M", ()


def _texts(patch: IO[bytes]) -> dict[tuple[str, str], _Text]:
    """Hunks by (old id, new id). They depend on nothing else, so paths in the patch need no parsing.

    Lines of content start with `+`, `-` or a backslash, so `index`, `@@` and `Binary` at a line's start are git's own.
    """
    texts: dict[tuple[str, str], _Text] = {}
    current = _Text()
    hunks = 0
    fresh = True
    for line in patch:
        if line.startswith(b"index ") and (match := _INDEX.match(line)):
            key = (_absent(match[1].decode()), _absent(match[2].decode()))
            fresh = key not in texts
            current = texts.setdefault(key, _Text())
        elif line.startswith(b"@@ ") and fresh and (match := _HUNK.match(line)):
            old_start, old_count, new_start, new_count = (1 if part is None else int(part) for part in match.groups())
            current.hunks.append(Hunk(old_start, old_count, new_start, new_count))
            hunks += 1
            if hunks > MAX_HUNKS:
                raise ChangeError(Problem(f"the change has more than {MAX_HUNKS:,} hunks", fix="split it"))
        elif line.startswith(b"Binary files "):
            current.binary = True
    return texts


def _file(raw: _Raw, texts: dict[tuple[str, str], _Text], sizes: dict[str, tuple[str, int] | None]) -> FileChange:
    # A changed type (file to symlink) is a deletion and an addition in the patch.
    pairs = [(raw.old_id, raw.new_id)]
    if raw.status is ChangeStatus.TYPE_CHANGED:
        pairs = [(raw.old_id, ""), ("", raw.new_id)]
    found = [texts[pair] for pair in pairs if pair in texts]
    hunks = tuple(hunk for text in found for hunk in text.hunks)
    size = sizes.get(raw.new_id)
    return FileChange(
        path=raw.path,
        status=raw.status,
        old_path=raw.old_path,
        old_mode=raw.old_mode,
        new_mode=raw.new_mode,
        old_id=raw.old_id,
        new_id=raw.new_id,
        added=sum(hunk.new_count for hunk in hunks),
        deleted=sum(hunk.old_count for hunk in hunks),
        binary=any(text.binary for text in found),
        kind=kind_of(raw.new_mode or raw.old_mode),
        old_kind=kind_of(raw.old_mode) if raw.old_mode else None,
        size=size[1] if size else None,
        hunks=hunks,
    )
