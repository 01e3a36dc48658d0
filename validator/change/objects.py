"""Blobs and trees by object id, and the files of one revision as a `Tree`."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from validator.change.model import MAX_READ, AbsentObject, ChangeError, Entry, FileKind, MissingFile
from validator.change.plumbing import Store
from validator.errors import Problem

__all__ = ["ABSENT", "FETCH", "MAX_DEPTH", "GitTree", "Node", "Objects"]

MAX_ENTRIES = 1_000_000
"""Files one listing may hold: a few hundred bytes of nested trees can describe billions."""
MAX_TREE = 64 * 1024 * 1024
"""Bytes one tree object may have."""
MAX_DEPTH = 256
"""Folders inside folders."""

FETCH = "this clone is partial: fetch the objects first, e.g. `git fetch --refetch origin` without a filter"
"""How to mend it where an object is not here."""

_TREE = 0o040000


@dataclass(frozen=True, slots=True)
class Node:
    """One line of a tree object."""

    mode: int
    id: str

    @property
    def is_tree(self) -> bool:
        return self.mode == _TREE


ABSENT = Node(0, "")
"""Where a tree has no such name."""


class Objects:
    """Reads objects through two long-lived `git cat-file` processes: one says sizes, the other hands out bytes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._trees: dict[str, dict[str, Node]] = {}
        self._files: dict[tuple[str, str], tuple[Entry, ...]] = {}

    def header(self, object_id: str) -> tuple[str, int] | None:
        """(type, bytes) of an object, without reading it; None when it is not there."""
        with self._lock:
            return _header(self._ask("--batch-check", object_id))

    def headers(self, object_ids: Iterable[str]) -> dict[str, tuple[str, int] | None]:
        """The same for many."""
        wanted = list(dict.fromkeys(object_ids))
        if not wanted:
            return {}
        output = self._store.git.output(
            "cat-file", "--batch-check", "--buffer", data="".join(f"{i}\n" for i in wanted).encode()
        )
        return dict(zip(wanted, map(_header, output.splitlines()), strict=True))

    def read(self, object_id: str, kind: str, limit: int) -> bytes:
        """Bytes of an object of that type, or `ChangeError`; one that is larger than `limit` is not read."""
        found = self.header(object_id)
        if found is None:
            raise AbsentObject(Problem(f"object {object_id} is not in the repository", fix=FETCH))
        if found[0] != kind:
            raise ChangeError(Problem(f"object {object_id} is a {found[0]}, not a {kind}"))
        if found[1] > limit:
            raise ChangeError(
                Problem(f"{kind} {object_id} has {found[1]:,} bytes, more than the {limit:,} that are read")
            )
        with self._lock:
            answer = _header(self._ask("--batch", object_id))
            pipe = self._processes["--batch"].stdout
            if answer is None or pipe is None:
                raise ChangeError(Problem(f"object {object_id} cannot be read"))
            data = pipe.read(answer[1])
            pipe.read(1)
        if len(data) != answer[1]:
            raise ChangeError(Problem(f"object {object_id} is damaged", fix="check the repository: `git fsck`"))
        return data

    def read_many(self, object_ids: Iterable[str], kind: str, limit: int) -> Iterator[tuple[str, bytes]]:
        """(id, bytes) of every object that `read` would give, each once, from one process.

        What is too large or of another kind is left out. Raises `AbsentObject`.
        """
        headers = self.headers(object_ids)
        for object_id, found in headers.items():
            if found is None:
                raise AbsentObject(Problem("its content is not in the repository", object_id, FETCH))
        fitting = [
            object_id for object_id, found in headers.items() if found and found[0] == kind and found[1] <= limit
        ]
        if not fitting:
            return
        asked = "".join(f"{object_id}\n" for object_id in fitting).encode()
        with self._store.git.stream("cat-file", "--batch", "--buffer", data=asked) as pipe:
            for object_id in fitting:
                found = _header(pipe.readline())
                data = pipe.read(found[1]) if found else b""
                if found is None or len(data) != found[1] or pipe.read(1) != b"\n":
                    raise ChangeError(Problem(f"object {object_id} is damaged", fix="check the repository: `git fsck`"))
                yield object_id, data

    def files(self, folder: str, tree: str, depth: int = 0) -> tuple[Entry, ...]:
        """Every file below a folder. A folder that several trees share is listed once."""
        if depth > MAX_DEPTH:
            raise ChangeError(Problem(f"folders are nested more than {MAX_DEPTH} deep", folder))
        key = (folder, tree)
        if key not in self._files:
            found: list[Entry] = []
            for name, node in self.tree(tree).items():
                path = f"{folder}/{name}" if folder else name
                found += self.files(path, node.id, depth + 1) if node.is_tree else (Entry(path, node.mode, node.id),)
                if len(found) > MAX_ENTRIES or len(self._files) > MAX_ENTRIES:
                    raise ChangeError(Problem(f"more than {MAX_ENTRIES:,} files", folder or "the tree"))
            self._files[key] = tuple(found)
        return self._files[key]

    def tree(self, object_id: str) -> dict[str, Node]:
        """Name → line of one tree object."""
        if object_id not in self._trees:
            self._trees[object_id] = _parse_tree(self.read(object_id, "tree", MAX_TREE), object_id)
        return self._trees[object_id]

    def root(self, revision: str) -> str:
        """Id of the tree of a commit (or of the tree itself), by id in full."""
        done = self._store.git.run("rev-parse", "--verify", "--end-of-options", f"{revision}^{{tree}}")
        if done.returncode:  # a commit by its id that was found, so it is the tree that is not here
            raise AbsentObject(Problem("its tree is not in the repository", f"commit {revision[:12]}", FETCH))
        return done.stdout.decode("ascii").strip()

    def _ask(self, mode: str, object_id: str) -> bytes:
        process = self._processes.get(mode)
        if process is None:
            process = self._processes[mode] = self._store.start(["cat-file", mode])
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{object_id}\n".encode())
            process.stdin.flush()
            return process.stdout.readline().rstrip(b"\n")
        except BrokenPipeError as broken:
            raise ChangeError(
                Problem(f"git stopped while reading object {object_id}", fix="check the repository: `git fsck`")
            ) from broken


def _header(line: bytes) -> tuple[str, int] | None:
    """`<id> <type> <size>`, or `<id> missing`."""
    parts = line.decode("ascii", "replace").split()
    if len(parts) == 3 and parts[2].isdigit():
        return parts[1], int(parts[2])
    return None


def _parse_tree(data: bytes, object_id: str) -> dict[str, Node]:
    """Lines of `<octal mode> <name> NUL <raw id>`; names that no honest git writes are refused."""
    width = len(object_id) // 2
    nodes: dict[str, Node] = {}
    position = 0
    while position < len(data):
        space = data.find(b" ", position, position + 8)
        end = data.find(b"\0", space + 1)
        if space < 0 or end < 0 or end + 1 + width > len(data):
            raise ChangeError(Problem(f"tree {object_id} is damaged", fix="check the repository: `git fsck`"))
        raw, mode = data[space + 1 : end], data[position:space]
        if not mode or mode.strip(b"01234567"):
            raise ChangeError(Problem(f"tree {object_id} is damaged", fix="check the repository: `git fsck`"))
        name = os.fsdecode(raw)
        if raw in (b"", b".", b"..") or b"/" in raw or name in nodes:
            why = "twice" if name in nodes else "which no file can be named"
            raise ChangeError(Problem(f"tree {object_id} has a file named {raw!r}, {why}"))
        nodes[name] = Node(int(mode, 8), data[end + 1 : end + 1 + width].hex())
        position = end + 1 + width
    return nodes


class GitTree:
    """`validator.change.model.Tree` over one commit's (or tree's) objects."""

    def __init__(self, objects: Objects, revision: str, tree: str) -> None:
        self._objects = objects
        self._revision = revision
        self._tree = tree

    @property
    def revision(self) -> str:
        return self._revision

    def entry(self, path: str) -> Entry | None:
        node = self._find(path)
        return None if node is None or node.is_tree else Entry(path, node.mode, node.id)

    def list(self, prefix: str = "") -> Sequence[Entry]:
        prefix = prefix.strip("/")
        node = self._find(prefix) if prefix else Node(_TREE, self._tree)
        if node is None:
            return ()
        if not node.is_tree:
            return (Entry(prefix, node.mode, node.id),)
        return tuple(sorted(self._objects.files(prefix, node.id), key=lambda entry: entry.path))

    def names(self, folder: str = "") -> Sequence[str]:
        folder = folder.strip("/")
        node = self._find(folder) if folder else Node(_TREE, self._tree)
        return () if node is None or not node.is_tree else tuple(self._objects.tree(node.id))

    def read(self, path: str, limit: int = MAX_READ) -> bytes:
        entry = self.entry(path)
        if entry is None:
            raise MissingFile(Problem(f"no such file in {self._revision[:12]}", path))
        if entry.kind is FileKind.SUBMODULE:
            raise MissingFile(Problem("is a submodule, not a file", path))
        try:
            return self._objects.read(entry.id, "blob", limit)
        except AbsentObject as error:
            raise AbsentObject(Problem("its content is not in the repository", path, FETCH)) from error
        except ChangeError as error:
            raise MissingFile(*(Problem(p.what, path, p.fix) for p in error.problems)) from error

    def read_many(self, paths: Iterable[str], limit: int = MAX_READ) -> Iterator[tuple[str, bytes]]:
        """(path, bytes) of every file that `read` would give, in no particular order; what is missing or too large is
        left out."""
        wanted: dict[str, list[str]] = {}
        for path in paths:
            entry = self.entry(path)
            if entry is not None and entry.kind is not FileKind.SUBMODULE:
                wanted.setdefault(entry.id, []).append(path)
        try:
            for object_id, data in self._objects.read_many(wanted, "blob", limit):
                yield from ((path, data) for path in wanted[object_id])
        except AbsentObject as absent:
            problems = (Problem(p.what, wanted.get(p.where, [p.where])[0], p.fix) for p in absent.problems)
            raise AbsentObject(*problems) from absent

    def _find(self, path: str) -> Node | None:
        node = Node(_TREE, self._tree)
        for part in path.split("/"):
            found = self._objects.tree(node.id).get(part) if node.is_tree else None
            if found is None:
                return None
            node = found
        return node
