"""Cells as they travel to an executor, several at a time, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from validator.scale.cell import Cell, Content, Needs, Outcome, State, perform

__all__ = ["Batch", "Ended", "Executor", "Finished", "run_cells"]


class Ended(NamedTuple):
    """An outcome without its cell: what a worker sends back."""

    state: State
    data: bytes
    why: str
    seconds: float

    def of(self, cell: Cell) -> Outcome:
        return Outcome(cell, self.state, self.data, self.why, self.seconds)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one worker takes at a time: cells with the same needs."""

    cells: tuple[Cell, ...]
    tries: int = 0
    """How often it was lost as it is."""
    seconds: float = 0.0
    """What it is thought to take."""

    @property
    def needs(self) -> Needs:
        return self.cells[0].needs

    @property
    def content(self) -> tuple[str, ...]:
        """Names of everything its cells read."""
        return tuple(dict.fromkeys(name for cell in self.cells for name in cell.content))


class Finished(NamedTuple):
    """A batch that a worker is done with."""

    batch: Batch
    ended: Sequence[Ended] | None
    """None: the worker went away; nothing is known of any of its cells."""
    why: str = ""


class Executor(Protocol):
    """Runs batches somewhere. What goes wrong under a cell is told apart from what the cell itself does."""

    def place(self, name: str, path: Path) -> None:
        """Content that batches may name from now on."""
        ...

    def room(self, needs: Needs) -> bool:
        """Whether another batch would start soon."""
        ...

    def submit(self, batch: Batch) -> None: ...

    def devices(self) -> str:
        """What GPUs cells run on, and with which driver: part of what their results rest on."""
        ...

    @property
    def busy(self) -> bool:
        """Whether anything was submitted that has not come back."""
        ...

    def wait(self, seconds: float | None = None) -> list[Finished]:
        """Blocks until something is done, or for so long."""
        ...

    def running(self) -> list[tuple[Batch, float]]:
        """What was submitted and is not back, and for how many seconds a worker has had it; 0: none has yet."""
        ...

    def give_up(self, batches: Sequence[Batch]) -> None:
        """Ends these, wherever they are; nothing comes back of them."""
        ...

    def close(self) -> None:
        """Ends whatever still runs."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def run_cells(cells: Sequence[Cell], content: Content) -> list[Ended]:
    """On the worker's side."""
    outcomes = (perform(cell, content) for cell in cells)
    return [Ended(o.state, o.data, o.why, o.seconds) for o in outcomes]
