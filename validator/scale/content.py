"""Content as it travels to the nodes of a cluster: one piece of bytes, laid out once in a private folder of each."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from validator.errors import Problem, ValidatorError

__all__ = ["ContentError", "node_folder", "packed", "unpacked"]

_OLD = 2 * 24 * 3600
"""Seconds after which content of an earlier job is removed from a node."""


class ContentError(ValidatorError):
    """A node's folder is somebody else's."""


def packed(path: Path) -> bytes:
    """A file or a folder as one piece of bytes, without owners, modes and times."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        files = sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
        if not path.is_dir():
            files = [path]
        for file in files:
            name = file.relative_to(path).as_posix() if path.is_dir() else ""
            entry = tarfile.TarInfo(f"content/{name}".rstrip("/"))
            entry.size = file.stat().st_size
            with file.open("rb") as data:
                archive.addfile(entry, data)
    return out.getvalue()


def unpacked(job: str, name: str, fetch: Callable[[], bytes]) -> Path:
    """Where content lies on this node; fetched when it is not there yet. Several workers may do so at once.

    `job`: nobody can know it beforehand, so that no other job can have left something else under that name.
    """
    folder = node_folder() / f"{job}-{name}"
    if not folder.exists():
        staging = Path(tempfile.mkdtemp(dir=folder.parent))
        with tarfile.open(fileobj=io.BytesIO(fetch())) as archive:
            archive.extractall(staging, filter="data")
        if not (staging / "content").exists():  # a folder without files
            (staging / "content").mkdir()
        try:
            staging.rename(folder)
        except OSError:  # another worker was faster
            shutil.rmtree(staging, ignore_errors=True)
    return folder / "content"


def node_folder() -> Path:
    """This user's own, and nobody else's: what lies in it is run."""
    folder = Path(tempfile.gettempdir()) / f"validator-content-{os.geteuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        return folder
    status = folder.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022 or folder.is_symlink():
        raise ContentError(Problem("is not this user's own folder", str(folder), "remove it"))
    for old in folder.iterdir():
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > _OLD:
                shutil.rmtree(old, ignore_errors=True)
    return folder
