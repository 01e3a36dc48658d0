"""How far a run is: what is done of each stage, how fast, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from validator.scale.budget import in_words
from validator.scale.cell import Outcome, State

__all__ = ["Board", "Stage"]


_MOST = 10**15
"""Above any count of cells, and any number of seconds."""


@dataclass
class Stage:
    """The cells of one stage."""

    total: int = 0
    done: int = 0
    known: int = 0
    """Of those done, taken from an earlier run."""
    failed: int = 0
    """Raised by themselves, or lost with the machine."""
    left_out: int = 0
    """Not reached, or another shard's."""
    began: float = 0.0
    """Seconds since the run began."""
    last: float = 0.0

    @property
    def ended(self) -> int:
        return self.done + self.failed + self.left_out

    @property
    def rate(self) -> float:
        """Cells a second that were really run; 0: nobody knows yet."""
        ran = self.done - self.known + self.failed
        return ran / (self.last - self.began) if ran and self.last > self.began else 0.0

    @property
    def left(self) -> str:
        """Time left, in words."""
        open_ = self.total - self.ended
        return "" if not open_ else f"{in_words(max(1, round(open_ / self.rate)))} left" if self.rate else "…"

    def words(self) -> str:
        parts = [f"{self.known:,} known"] * bool(self.known) + [f"{self.failed:,} failed"] * bool(self.failed)
        parts += [f"{self.left_out:,} left out"] * bool(self.left_out)
        parts += [f"{self.rate:.1f}/s"] * bool(self.rate) + [self.left] * bool(self.left)
        return f"{self.ended:,} of {self.total:,} cells" + (f" ({', '.join(parts)})" if parts else "")


@dataclass
class Board:
    """Counts of a run. Told of every outcome by the engine."""

    clock: Callable[[], float] = time.monotonic
    changed: Callable[[Board], None] = lambda board: None
    stages: dict[str, Stage] = field(default_factory=dict)
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def expect(self, stage: str, total: int) -> None:
        """A stage begins."""
        found = self.stages.setdefault(stage, Stage(began=self.clock() - self.started))
        found.total += total
        self.changed(self)

    def ended(self, outcome: Outcome) -> None:
        stage = self.stages.setdefault(outcome.cell.stage, Stage())
        stage.last = self.clock() - self.started
        if outcome.state is State.DONE:
            stage.done += 1
            stage.known += outcome.known
        elif outcome.state in (State.RAISED, State.LOST):
            stage.failed += 1
        else:
            stage.left_out += 1
        self.changed(self)

    def lines(self) -> Iterator[tuple[str, str]]:
        """(stage, how far it is)."""
        return ((name, stage.words()) for name, stage in self.stages.items())

    def document(self) -> dict[str, Any]:
        return {name: asdict(stage) for name, stage in self.stages.items()}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Board:
        """A board as it was written. Raises `TypeError`, `ValueError` for what is none."""
        board = cls()
        for name, counts in document.items():
            stage = Stage(**counts)
            if not all(isinstance(v, int | float) and 0 <= v < _MOST for v in counts.values()):
                raise ValueError("counts are numbers")
            board.stages[str(name)] = stage
        return board
