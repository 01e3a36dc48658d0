"""A `Tree` of text files in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from validator.change.model import MAX_READ, Entry, MissingFile
from validator.errors import Problem

__all__ = ["MemoryTree"]


class MemoryTree:
    """Path → text or bytes."""

    def __init__(self, files: Mapping[str, str | bytes]) -> None:
        self._files = {path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()}

    @property
    def revision(self) -> str:
        digest = hashlib.sha256()
        for path, data in sorted(self._files.items()):
            digest.update(path.encode() + b"\0" + data + b"\0")
        return digest.hexdigest()

    def entry(self, path: str) -> Entry | None:
        data = self._files.get(path)
        return None if data is None else Entry(path, 0o100644, hashlib.sha256(data).hexdigest())

    def list(self, prefix: str = "") -> Sequence[Entry]:
        paths = (p for p in sorted(self._files) if not prefix or p == prefix or p.startswith(f"{prefix}/"))
        return tuple(entry for p in paths if (entry := self.entry(p)))

    def read(self, path: str, limit: int = MAX_READ) -> bytes:
        if path not in self._files:
            raise MissingFile(Problem("no such file", path))
        if len(self._files[path]) > limit:
            raise MissingFile(Problem(f"has more than the {limit:,} bytes that are read", path))
        return self._files[path]
