"""A folder on disk as a `Tree`: for policies that a maintainer keeps outside the repository."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from validator.change.model import MAX_READ, ChangeError, Entry, FileKind, MissingFile
from validator.errors import Problem

__all__ = ["FolderTree"]


class FolderTree:
    """The files below a folder. Symbolic links are listed as such and never followed."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise ChangeError(Problem("no such folder", os.fspath(root)))
        self._root = root

    @property
    def revision(self) -> str:
        digest = hashlib.sha256()
        for entry in self.list():
            digest.update(os.fsencode(f"{entry.mode:o} {entry.path}") + b"\0" + entry.id.encode())
        return digest.hexdigest()

    def entry(self, path: str) -> Entry | None:
        place = self._place(path)
        if place is None:
            return None
        if place.is_symlink():
            return Entry(path, 0o120000, hashlib.sha256(os.fsencode(os.readlink(place))).hexdigest())
        if not place.is_file():
            return None
        with place.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        return Entry(path, 0o100755 if place.stat().st_mode & 0o100 else 0o100644, content)

    def list(self, prefix: str = "") -> Sequence[Entry]:
        prefix = prefix.strip("/")
        if single := self.entry(prefix):
            return (single,)
        start = self._place(prefix) if prefix else self._root
        if start is None:
            return ()
        found = (self.entry(path) for path in self._paths(start))
        return tuple(sorted((entry for entry in found if entry), key=lambda entry: entry.path))

    def _paths(self, start: Path) -> Iterator[str]:
        """Files below a folder, and links, which are files here whatever they lead to."""
        for folder, folders, names in os.walk(start):
            for name in (*names, *folders):
                place = os.path.join(folder, name)
                if name in names or os.path.islink(place):
                    yield os.path.relpath(place, self._root)

    def names(self, folder: str = "") -> Sequence[str]:
        place = self._place(folder) if folder else self._root
        if place is None or place.is_symlink() or not place.is_dir():
            return ()
        return tuple(sorted(os.listdir(place)))

    def _place(self, path: str) -> Path | None:
        """Where a path of the tree is on disk; None when it is not inside, or only through a link."""
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts):
            return None
        if any(self._root.joinpath(*parts[:count]).is_symlink() for count in range(1, len(parts))):
            return None
        return self._root / path

    def read(self, path: str, limit: int = MAX_READ) -> bytes:
        found = self.entry(path)
        if found is None:
            raise MissingFile(Problem("no such file", path))
        place = self._root / path
        if found.kind is FileKind.SYMLINK:
            return os.fsencode(os.readlink(place))
        if place.stat().st_size > limit:
            raise MissingFile(Problem(f"has more than the {limit:,} bytes that are read", path))
        return place.read_bytes()
