"""The journal: every finished case of a kernel, written down before the next begins. A run that is killed loses none.

One file for each kernel and way of running it, named by all that can change a result: this program, the contract, both
trees, the libraries, the machine. A line a case, its checksum first. Lines are only added; the first that is torn or
does not check ends what is believed, and is cut off. What is written survives the death of any process at once, and
that of the machine after at most `_BATCH` cases or `_SECONDS`.

Whoever can write to the folder can write results: it must be the caller's own.
"""

from __future__ import annotations

import hashlib
import os
import platform
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import ConfigDict, TypeAdapter, ValidationError

from validator.differential.errors import DifferentialError
from validator.differential.results import CaseResult
from validator.differential.runner import Runner
from validator.errors import Problem
from validator.locks import let_go, take
from validator.own_source import own_source

__all__ = ["Finished", "Journal", "JournalError", "journal_of", "run_seed", "tree_digest"]

_BATCH = 32
"""Cases between two calls of `fsync`."""
_SECONDS = 1.0
"""Seconds between two, where cases are slow."""
_LONGEST = 16 << 20
"""Bytes of a line that is read at all."""
_HEAD = b"validator/journal/1\n"


class JournalError(DifferentialError):
    """A folder that may not be believed, or cannot be written."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished case, and all that the cases after it build on."""

    __pydantic_config__ = ConfigDict(extra="forbid", ser_json_inf_nan="constants")

    result: CaseResult
    calls: int
    """Of the candidate, up to here."""
    attributed: int
    """As `Runner.attributed`, up to here."""
    hidden: int
    """As `Runner.hidden`, up to here."""
    wide: bool
    """As `Runner.wide`, up to here."""
    tried: tuple[str, ...] = ()
    """Mutants that this case tried first."""
    visible: tuple[str, ...] = ()
    """Mutants that this case showed first."""
    budget: int = 0
    """As `Visibility.budget`, up to here."""
    shrunk: CaseResult | None = None
    """The smallest case that fails in the same way; a failed case is written before that is looked for, and after."""


@cache
def _adapter() -> TypeAdapter[Finished]:
    return TypeAdapter(Finished)


class Journal:
    """Finished cases of one kernel. Without a path nothing is known and nothing is kept."""

    def __init__(self, path: Path | None = None) -> None:
        """Raises `JournalError` when the file cannot be used, or another run uses it."""
        self._finished: dict[str, Finished] = {}
        self._unsynced, self._synced = 0, time.monotonic()
        self._file = -1 if path is None else _opened(path)
        if path is not None:
            self._path = path
            self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._finished)

    def get(self, case_id: str) -> Finished | None:
        """What came of a case in an earlier run."""
        return self._finished.get(case_id)

    def add(self, finished: Finished) -> None:
        """Write a case down. Raises `JournalError` when that is impossible."""
        self._finished[finished.result.case.id] = finished
        if self._file < 0:
            return
        try:
            _write(self._file, _line(_adapter().dump_json(finished)))
            self._unsynced += 1
            if self._unsynced >= _BATCH or time.monotonic() - self._synced > _SECONDS:
                self._sync()
        except OSError as error:
            raise _unusable(self._path, error) from None

    def close(self) -> None:
        """Let go of the file, all of it on disk."""
        if self._file >= 0:
            self._sync()
            let_go(self._file)
            self._file = -1

    def _sync(self) -> None:
        if self._unsynced:
            os.fsync(self._file)
        self._unsynced, self._synced = 0, time.monotonic()

    def _read(self) -> None:
        good = 0
        with open(self._file, "rb", closefd=False) as stream:
            stream.seek(0)
            if stream.readline(len(_HEAD)) == _HEAD:
                good = len(_HEAD)
                for size, finished in _records(stream.readline, good):
                    self._finished[finished.result.case.id] = finished
                    good = size
        os.ftruncate(self._file, good)
        if not good:
            _write(self._file, _HEAD)


def _records(readline: Callable[[int], bytes], at: int) -> Iterator[tuple[int, Finished]]:
    """(where it ends, what it says) of every line up to the first that is torn or does not check."""
    while line := readline(_LONGEST):
        checksum, _, text = line.rstrip(b"\n").partition(b" ")
        if not line.endswith(b"\n") or checksum != _checksum(text):
            return
        try:
            finished = _adapter().validate_json(text)
        except ValidationError:
            return
        at += len(line)
        yield at, finished


def _checksum(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)


def _line(text: bytes) -> bytes:
    return b"%b %b\n" % (_checksum(text), text)


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _opened(path: Path) -> int:
    try:
        return take(path, os.O_APPEND | os.O_NOFOLLOW)
    except BlockingIOError:
        fix = "wait for it, or name another folder"
        raise JournalError(Problem("is in use by another run", str(path), fix)) from None
    except OSError as error:
        raise _unusable(path, error) from None


def _unusable(path: Path, error: OSError) -> JournalError:
    return JournalError(Problem(f"cannot be used ({error.strerror})", str(path), "name another folder for the journal"))


def _own(folder: Path) -> None:
    """Make the folder, or refuse one that others can write to."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
    except OSError as error:
        raise _unusable(folder, error) from None
    if status.st_mode & 0o022 or status.st_uid != os.geteuid():
        raise JournalError(
            Problem("can be written by others, who could put results there", str(folder), f"chmod go-w {folder}")
        )


def run_seed(folder: Path, wanted: int | None, new: int) -> int:
    """The seed of all runs of a journal: the stored one, or else `wanted`, or else `new`, stored from now on.

    Raises `JournalError` when another was asked for: its cases would not be those of the journal.
    """
    _own(folder)
    path = folder / "seed"
    try:
        with open(path, "x") as stream:
            stream.write(f"{new if wanted is None else wanted}\n")
    except FileExistsError:
        pass
    except OSError as error:
        raise _unusable(path, error) from None
    text = path.read_text("ascii", "replace").strip()
    if not text.isdigit() or len(text) > 19:
        raise JournalError(Problem("holds no seed", str(path), "name another folder for the journal"))
    if wanted is not None and wanted != int(text):
        fix = "leave --seed out, or name another folder"
        raise JournalError(Problem(f"was begun with --seed {text}", str(folder), fix))
    return int(text)


def journal_of(folder: Path | None, runner: Runner, number: int = 0) -> Journal:
    """The journal of what this runner runs, or of the part of that number."""
    if folder is None:
        return Journal()
    _own(folder)
    total = hashlib.sha256()
    for part in _rests_on(runner):
        total.update(hashlib.sha256(part.encode("utf-8", "surrogateescape")).digest())
    suffix = f".{number}" if number else ""
    return Journal(folder / f"{total.hexdigest()[:32]}{suffix}.jsonl")


def _rests_on(runner: Runner) -> Iterator[str]:
    """Everything that can change a result."""
    yield from (own_source(), platform.platform(), platform.python_version())
    yield from (f"{name} {version(name)}" for name in ("numpy", "ml_dtypes", "hypothesis"))
    yield from (runner.stock.model_dump_json(), runner.contract.model_dump_json())
    yield from (runner.chosen.device, runner.chosen.target, *(f"{k}={v}" for k, v in runner.chosen.options.items()))
    yield repr(runner.candidate.limits)
    yield from (tree_digest(tree) for tree in (runner.candidate.tree, runner.reference.worker.tree))


_NOT_READ = frozenset({".git", "__pycache__"})
"""Folders that no callable is imported from."""


def tree_digest(folder: Path) -> str:
    """sha256 over the files that a callable may read: their paths and contents."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not _NOT_READ & set(relative.parts):
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").digest()
            total.update(os.fsencode(relative.as_posix()) + b"\0" + digest)
    return total.hexdigest()
