"""Files that one process has to itself, from when it takes them until it ends, however it ends.

A record lock (fcntl(2)) and not flock(2): that one belongs to the open file, which a child has too between its fork and
its exec, so that a run which was killed while it began a process seems to go on. A record lock in turn is lost when
its process closes the file by any descriptor at all; so a file that is taken here is never opened a second time.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

__all__ = ["is_taken", "let_go", "take"]

_OURS: set[tuple[int, int]] = set()
"""Device and number of the files that this process has taken."""


def take(path: Path, flags: int = 0) -> int:
    """Open a file to read and write, made where it is missing, and have it to oneself. Returns its descriptor.

    Args:
        flags: more of open(2), such as `os.O_APPEND`.

    Raises:
        BlockingIOError: another has it, in this process or outside.
        OSError: it cannot be opened, or lies where nothing can be locked.
    """
    if _is_ours(path):
        raise BlockingIOError
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
    try:
        _lock(file)
    except BaseException:
        os.close(file)
        raise
    _OURS.add(_identity(os.fstat(file)))
    return file


def let_go(file: int) -> None:
    """Close a file that was taken."""
    _OURS.discard(_identity(os.fstat(file)))
    os.close(file)


def is_taken(path: Path) -> bool:
    """Whether a process has it now."""
    if _is_ours(path):
        return True
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        _lock(file)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _lock(file: int) -> None:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except PermissionError as error:  # POSIX lets a system say EACCES for EAGAIN
        raise BlockingIOError from error


def _is_ours(path: Path) -> bool:
    with suppress(OSError):
        return _identity(path.stat()) in _OURS
    return False


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
