"""A revision's files on disk, where a worker finds what it loads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

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


def write_tree(tree: TreeReader, folder: Path, prefix: str = "", *, limit: int = 256 << 20) -> int:
    """Write the regular files below `prefix` into `folder`, read-only. Returns how many.

    Links, submodules and files too large to read are left out; a path that would leave the folder is refused, and so is
    a tree beyond `limit` bytes.
    """
    written, total = 0, 0
    root = "" if prefix == "." else prefix.removeprefix("./").strip("/")
    for entry in tree.list(root):
        relative = entry.path[len(root) :].lstrip("/") if root else entry.path
        if entry.mode & 0o170000 != 0o100000:
            continue
        parts = relative.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\0" in relative:
            raise RunError(f"tree entry {relative!r} is not a plain path")
        try:
            data = tree.read(entry.path)
        except ValidatorError:
            continue  # larger than what is read at all: a callable that needs it fails to load, visibly
        total += len(data)
        if total > limit:
            raise RunError(
                f"the tree holds more than {limit >> 20} MiB; set `import_root` to the folder that is needed"
            )
        target = folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(0o444)
        written += 1
    return written
