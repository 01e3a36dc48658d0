"""What is kept while a kernel runs, to tell afterwards how it went wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from validator.emulate.hazard import HazardKind
from validator.emulate.lanes import Array

if TYPE_CHECKING:
    from validator.emulate.copies import BulkCopy
    from validator.emulate.locate import Piece
    from validator.emulate.machine import Machine
    from validator.emulate.memory import Touch

__all__ = ["StaleRead", "Story", "dtype_named"]

MOST = 64
"""Events kept."""


def dtype_named(kind: str) -> np.dtype[Any] | None:
    """numpy's type for an element type of a contract; None for packed and unknown ones."""
    try:
        found = np.dtype(getattr(ml_dtypes, kind, kind)) if kind else None
    except TypeError:
        return None
    return found if found is not None and found.itemsize in (1, 2, 4, 8) else None


@dataclass(frozen=True, slots=True)
class StaleRead:
    """A thread that got an old value."""

    index: int
    thread: int
    memory: str
    offset: int
    width: int
    got: int
    """Raw bits of the first element that differs."""
    true: int


@dataclass(slots=True)
class Story:
    stale: dict[int, StaleRead] = field(default_factory=dict)
    """First stale read of each instruction that read a different value."""

    def stale_read(self, piece: Piece, touch: Touch, got: list[Array], true: list[Array], old: Array) -> None:
        if touch.index in self.stale or len(self.stale) >= MOST:
            return
        for part, (g, t) in enumerate(zip(got, true, strict=True)):
            if g.ndim > 1:
                continue
            differs = np.flatnonzero(old & (g != t))
            if len(differs):
                at = int(differs[0])
                name, offset = piece.region.name_at(int(piece.offsets[at]))
                self.stale[touch.index] = StaleRead(
                    touch.index, int(piece.threads[at]), name, offset + part * touch.width, touch.width,
                    int(g[at]), int(t[at]),
                )  # fmt: skip
                return

    def stale_bytes(self, copy: BulkCopy, true: Array) -> None:
        """A bulk copy that got old bytes."""
        differs = np.flatnonzero(copy.data != true)
        if len(differs) and copy.index not in self.stale and len(self.stale) < MOST:
            at = int(differs[0])
            name, offset = copy.source.name_at(int(copy.origin[at]))
            got, right = int(copy.data[at]), int(true[at])
            self.stale[copy.index] = StaleRead(copy.index, copy.thread, name, offset, 1, got, right)

    def leaves(self, m: Machine, threads: Array) -> None:
        """Threads that trigger dependants and leave without a wait that orders them."""
        m.report(
            HazardKind.LEAVES_WITHOUT_WAIT, m.code.exit_index, threads, "", None,
            "a dependant that waits for this grid may run while the launches before it still do",
        )  # fmt: skip
