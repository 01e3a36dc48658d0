"""A folder on disk as a `Tree`: for policies that a maintainer keeps outside the repository."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
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
        place = self._root / path
        if not path or Path(path).is_absolute() or ".." in Path(path).parts:
            return None
        if any(parent.is_symlink() for parent in place.parents if parent.is_relative_to(self._root / "_")):
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
        if prefix and (single := self.entry(prefix)):
            return (single,)
        entries = []
        for folder, _folders, names in os.walk(self._root / prefix, followlinks=False):
            for name in names:
                found = self.entry(os.path.relpath(os.path.join(folder, name), self._root))
                if found:
                    entries.append(found)
        return tuple(sorted(entries, key=lambda entry: entry.path))

    def names(self, folder: str = "") -> Sequence[str]:
        place = self._root / folder
        return tuple(sorted(os.listdir(place))) if place.is_dir() and not place.is_symlink() else ()

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
