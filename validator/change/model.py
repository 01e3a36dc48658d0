"""Change: what a revision brings, as facts read from git objects.

Paths are `str` decoded with `surrogateescape`, so a path that is not UTF-8 survives a round trip through
`os.fsencode`; they are untrusted text and are escaped before display. Nothing here runs git: `validator.change.git`
fills these in, tests may write them by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from validator.errors import ValidatorError

__all__ = [
    "MAX_READ",
    "AbsentObject",
    "BulkReader",
    "Change",
    "ChangeError",
    "ChangeStatus",
    "Entry",
    "FileChange",
    "FileKind",
    "Hunk",
    "MissingFile",
    "Tree",
    "read_files",
    "read_many",
]

MAX_READ = 8 * 1024 * 1024
"""Bytes `Tree.read` hands out unless asked for more: source and PTX fit; a 2 GB blob is refused, not read."""


class ChangeError(ValidatorError):
    """The repository, a revision or an object cannot be read."""


class AbsentObject(ChangeError):
    """A file is part of the tree and its content is not here: a partial clone, or a damaged repository.

    No `MissingFile`: whoever leaves out what cannot be read must not take a file for empty that is not.
    """


class MissingFile(ChangeError):
    """The tree has no such file (or it is a folder, a submodule, or larger than the reader's limit)."""


class FileKind(StrEnum):
    """What a tree entry is, from its mode."""

    REGULAR = "regular"
    EXECUTABLE = "executable"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"


class ChangeStatus(StrEnum):
    """How a path changed; git's letters."""

    ADDED = "A"
    MODIFIED = "M"
    DELETED = "D"
    RENAMED = "R"
    TYPE_CHANGED = "T"


@dataclass(frozen=True, slots=True)
class Hunk:
    """One run of changed lines, without context. A count of 0 puts the start *after* that line, as unified diffs do."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int


@dataclass(frozen=True, slots=True)
class FileChange:
    """One path that differs between the merge base and the head."""

    path: str
    """At the head; for a deleted file, at the merge base."""
    status: ChangeStatus
    old_path: str | None = None
    """Path at the merge base when it was renamed."""
    old_mode: int = 0
    """git file mode (0o100644, …); 0: absent."""
    new_mode: int = 0
    old_id: str = ""
    """Object id in full; empty: absent."""
    new_id: str = ""
    added: int = 0
    """Lines; 0 for a binary file."""
    deleted: int = 0
    binary: bool = False
    """Holds NUL near its start, or is too large for a line diff."""
    kind: FileKind = FileKind.REGULAR
    """At the head; for a deleted file, at the merge base."""
    old_kind: FileKind | None = None
    """At the merge base; None: absent."""
    size: int | None = None
    """Bytes at the head; None: absent or a submodule."""
    hunks: tuple[Hunk, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path this change touches: a rename touches two."""
        return (self.path,) if self.old_path is None else (self.old_path, self.path)

    @property
    def lines(self) -> int:
        """Lines added plus lines deleted."""
        return self.added + self.deleted

    @property
    def first_line(self) -> int | None:
        """1-based line at the head where the change starts; None when there is no such line."""
        if self.status is ChangeStatus.DELETED or not self.hunks:
            return None
        return max(1, self.hunks[0].new_start)


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a tree."""

    path: str
    mode: int
    id: str

    @property
    def kind(self) -> FileKind:
        return kind_of(self.mode)


def kind_of(mode: int) -> FileKind:
    """Kind of a tree entry from its git mode."""
    match mode & 0o170000:
        case 0o120000:
            return FileKind.SYMLINK
        case 0o160000:
            return FileKind.SUBMODULE
        case _:
            return FileKind.EXECUTABLE if mode & 0o111 else FileKind.REGULAR


class Tree(Protocol):
    """The files of one revision, read as objects: no checkout, no filter, no link is followed."""

    @property
    def revision(self) -> str:
        """Commit (or tree) id in full; for a folder on disk, its digest."""
        ...

    def entry(self, path: str) -> Entry | None:
        """The file at exactly this path, or None (also for folders)."""
        ...

    def list(self, prefix: str = "") -> Sequence[Entry]:
        """Files under the folder `prefix` ("" for all; one file when it names a file), recursively, by path."""
        ...

    def names(self, folder: str = "") -> Sequence[str]:
        """Names of the files and folders directly in a folder; empty when there is no such folder."""
        ...

    def read(self, path: str, limit: int = MAX_READ) -> bytes:
        """Bytes of a file as stored (a symlink's bytes are its target). Raises `MissingFile`, `AbsentObject`."""
        ...


@runtime_checkable
class BulkReader(Protocol):
    """A tree that hands out many files at a fraction of the cost of one at a time."""

    def read_many(self, paths: Iterable[str], limit: int = MAX_READ) -> Iterator[tuple[str, bytes]]:
        """(path, bytes) of every file that `read` would give, in no particular order; what is missing or too large is
        left out. Raises `AbsentObject`."""
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """base → head, seen from their merge base."""

    base: str
    """Commit id in full; the empty tree's id when there is no base revision (first commit)."""
    head: str
    merge_base: str
    files: tuple[FileChange, ...]
    """What the head changed since the merge base, by path."""
    base_tree: Tree = field(compare=False, repr=False)
    """Trusted: policy, waivers, tests and references are read here."""
    merge_base_tree: Tree = field(compare=False, repr=False)
    """The old side of `files`."""
    head_tree: Tree = field(compare=False, repr=False)
    """Untrusted."""
    base_ref: str = ""
    """As it was asked for."""
    head_ref: str = ""
    shallow: bool = False
    """History is cut: the merge base is the best the present commits show."""
    notes: tuple[str, ...] = ()
    """Sentences about what could not be seen (shallow history, several merge bases, renames not searched)."""
    tree: str = ""
    """Id of the head's tree: the same content has the same, whatever the history; empty: not known."""

    @property
    def added(self) -> int:
        """Lines added, all files."""
        return sum(file.added for file in self.files)

    @property
    def deleted(self) -> int:
        """Lines deleted, all files."""
        return sum(file.deleted for file in self.files)

    def file(self, path: str) -> FileChange | None:
        """The change of this path (old or new name), if it changed."""
        return next((file for file in self.files if path in file.paths), None)


def read_many(tree: Tree, paths: Iterable[str], limit: int = MAX_READ) -> Iterator[tuple[str, bytes]]:
    """(path, bytes) of every file that can be read, in no particular order; what is missing or too large is left out.

    Raises:
        AbsentObject: the content of one of them is not in the repository.
    """
    if isinstance(tree, BulkReader):
        yield from tree.read_many(paths, limit)
        return
    for path in paths:
        with suppress(MissingFile):
            yield path, tree.read(path, limit)


def read_files(tree: Tree, folder: str, suffix: str = "", *, deep: bool = False) -> dict[str, bytes]:
    """Regular files of a folder by path: what `policy` and `manifest` loaders take. Not below it unless `deep`."""
    return {
        entry.path: tree.read(entry.path)
        for entry in tree.list(folder)
        if entry.path.endswith(suffix)
        and entry.kind in (FileKind.REGULAR, FileKind.EXECUTABLE)
        and (deep or "/" not in entry.path[len(folder) :].lstrip("/"))
    }
