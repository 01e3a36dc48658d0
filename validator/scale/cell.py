"""A cell: one piece of work whose result depends on nothing but what the cell names.

A stage turns what it has to run into cells and asks a `Work` for their outcomes; where and when they run is not the
stage's business. A task is a function of this program, `module:function`, that takes the cell's payload and content and
returns bytes. Whatever can change its result is in the cell's key: the same key, the same result.
"""

from __future__ import annotations

import hashlib
import importlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Protocol, cast

from validator.errors import ValidatorError
from validator.own_source import own_source

__all__ = [
    "UNREADABLE",
    "Cell",
    "Content",
    "InPlace",
    "Needs",
    "Outcome",
    "State",
    "Task",
    "Work",
    "digest_of",
    "perform",
]

UNREADABLE = "what is kept of an earlier run cannot be read"
"""Why a cell that is done has no result after all."""
Content = Callable[[str], Path]
"""Name of content (`Work.keep`) → where it lies on the machine that runs the cell. Read-only."""
Task = Callable[[bytes, Content], bytes]


@dataclass(frozen=True, slots=True)
class Needs:
    """What has to be there for a cell to run."""

    gpu: str = ""
    """`any`, or a model as the executor names it; empty: none."""
    memory: int = 0
    """Bytes; 0: unknown, an ordinary amount."""


@dataclass(frozen=True)
class Cell:
    """One piece of work."""

    id: str
    """Unique in a plan and the same in every run over the same input: `differential/kda_decode/0003`."""
    task: str
    """`module:function` of this program."""
    payload: bytes
    """What to do, for the task to read."""
    content: tuple[str, ...] = ()
    """Names of files and folders that the task reads."""
    rests_on: Mapping[str, str] = field(default_factory=dict)
    """What else can change the result, and its version: tools, libraries, devices, drivers."""
    seconds: float = 0.05
    """What it is thought to take where nothing was measured yet."""
    needs: Needs = Needs()
    what: str = ""
    """In words, for the plan."""
    group: str = ""
    """Cells of one group are in one shard: those that build on what another one made; empty: its id."""

    @property
    def kind(self) -> str:
        """Cells of one kind take about as long as one another: everything of the id but its last part."""
        return self.id.rpartition("/")[0] or self.id

    @property
    def stage(self) -> str:
        return self.id.partition("/")[0]

    @cached_property
    def key(self) -> str:
        """sha256 over everything that can change the result; the id and the estimate are no part of it."""
        total = hashlib.sha256()
        rests = (f"{name}={version}" for name, version in sorted(self.rests_on.items()))
        for part in (own_source(), self.task, *self.content, "", *rests, ""):
            total.update(part.encode("utf-8", "surrogateescape") + b"\0")
        total.update(self.payload)
        return total.hexdigest()


class State(StrEnum):
    """How a cell ended."""

    DONE = "done"
    RAISED = "raised"
    """The task failed by itself: the same would happen again."""
    LOST = "lost"
    """The process or the machine under it went away, every time it was tried."""
    UNREACHED = "unreached"
    """The budget was spent before its turn."""
    ELSEWHERE = "elsewhere"
    """Another shard's."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a cell."""

    cell: Cell
    state: State
    data: bytes = b""
    """What the task returned."""
    why: str = ""
    """In words, unless it is done."""
    seconds: float = 0.0
    known: bool = False
    """Taken from an earlier run."""


class Work(Protocol):
    """What a stage may ask for."""

    def keep(self, path: Path) -> str:
        """Hand over a file or a folder that cells read; its name. It must stay as it is until the check ends."""
        ...

    def run(self, cells: Iterable[Cell], total: int) -> Iterator[Outcome]:
        """Every cell's outcome, each once, in any order. Cells come most valuable first; `total`: how many."""
        ...


@dataclass
class InPlace:
    """Runs every cell here and now."""

    places: dict[str, Path] = field(default_factory=dict)

    def keep(self, path: Path) -> str:
        name = digest_of(path)
        self.places[name] = path
        return name

    def run(self, cells: Iterable[Cell], total: int) -> Iterator[Outcome]:
        for cell in cells:
            yield perform(cell, self.places.__getitem__)


def perform(cell: Cell, content: Content) -> Outcome:
    """Run a cell. What the task raises is an outcome; what ends the interpreter is not caught."""
    start = time.perf_counter()
    try:
        data = _task(cell.task)(cell.payload, content)
    except ValidatorError as error:
        why = "; ".join(map(str, error.problems))
        return Outcome(cell, State.RAISED, why=why, seconds=time.perf_counter() - start)
    except Exception as error:
        why = f"internal error: {type(error).__name__}: {error}"[:2000]
        return Outcome(cell, State.RAISED, why=why, seconds=time.perf_counter() - start)
    return Outcome(cell, State.DONE, data, seconds=time.perf_counter() - start)


@cache
def _task(name: str) -> Task:
    module, _, function = name.partition(":")
    return cast("Task", getattr(importlib.import_module(module), function))


def digest_of(path: Path) -> str:
    """sha256 of a file's content, or of a folder's files with their paths."""
    if not path.is_dir():
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    total = hashlib.sha256(b"folder\0")
    # What the interpreter leaves behind is no part of what a person wrote.
    for file in sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        total.update(file.relative_to(path).as_posix().encode("utf-8", "surrogateescape") + b"\0")
        total.update(bytes.fromhex(digest_of(file)))
    return total.hexdigest()
