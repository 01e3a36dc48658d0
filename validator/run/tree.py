"""A revision's files on disk, where a worker finds what it loads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable

from validator.errors import ValidatorError
from validator.run.outcome import RunError

__all__ = ["TreeReader", "write_tree"]


class _Listed(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def mode(self) -> int: ...


class TreeReader(Protocol):
    """What is needed of a revision's files."""

    def list(self, prefix: str = "") -> Sequence[_Listed]: ...
    def read(self, path: str, limit: int = ...) -> bytes: ...


@runtime_checkable
class _Bulk(Protocol):
    """A tree that hands out many files at a fraction of the cost of one at a time."""

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]: ...


def write_tree(tree: TreeReader, folder: Path, prefix: str = "", *, limit: int = 256 << 20) -> int:
    """Write the regular files below `prefix` into `folder`, read-only. Returns how many.

    Links, submodules and files too large to read are left out; a path that would leave the folder is refused, and so is
    a tree beyond `limit` bytes.
    """
    root = "" if prefix == "." else prefix.removeprefix("./").strip("/")
    places: dict[str, Path] = {}
    for entry in tree.list(root):
        if entry.mode & 0o170000 != 0o100000:
            continue
        relative = entry.path[len(root) :].lstrip("/") if root else entry.path
        parts = relative.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\0" in relative:
            raise RunError(f"tree entry {relative!r} is not a plain path")
        places[entry.path] = folder.joinpath(*parts)
    for parent in dict.fromkeys(place.parent for place in places.values()):
        parent.mkdir(parents=True, exist_ok=True)
    written, total = 0, 0
    for path, data in _read(tree, list(places)):
        total += len(data)
        if total > limit:
            raise RunError(
                f"the tree holds more than {limit >> 20} MiB; set `import_root` to the folder that is needed"
            )
        places[path].write_bytes(data)
        places[path].chmod(0o444)
        written += 1
    return written


_AT_ONCE = 2000
"""Files that are asked for in one go: few enough to be written before git is thought to hang."""


def _read(tree: TreeReader, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """(path, bytes) of every file that can be read: a callable that needs another fails to load, visibly."""
    if isinstance(tree, _Bulk):
        for start in range(0, len(paths), _AT_ONCE):
            yield from tree.read_many(paths[start : start + _AT_ONCE])
        return
    for path in paths:
        with suppress(ValidatorError):
            yield path, tree.read(path)
