"""The threads that execute an instruction together."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Lanes"]

Array = npt.NDArray[Any]


class Lanes:
    """A sorted set of thread numbers. Neighbouring threads are a slice: reading a register is then a view."""

    __slots__ = ("count", "index", "threads")

    def __init__(self, threads: Array) -> None:
        self.threads = threads
        """Thread numbers, ascending, int64."""
        self.count = count = len(threads)
        first = int(threads[0])
        whole = int(threads[-1]) - first + 1 == count
        self.index: slice | Array = slice(first, first + count) if whole else threads
        """Indexes a row of the register file."""

    def where(self, mask: Array) -> Lanes | None:
        """Those of them for which `mask` (one element per thread of this set) holds; None when none is left."""
        held = int(np.count_nonzero(mask))
        if held == self.count:
            return self
        return Lanes(self.threads[mask]) if held else None
