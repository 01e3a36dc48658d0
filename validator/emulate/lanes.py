"""The threads that execute an instruction together."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Lanes"]

Array = npt.NDArray[Any]
_NONE = np.zeros(0, np.int64)


class Lanes:
    """A sorted set of thread numbers. Neighbouring threads are a slice: reading a register is then a view."""

    __slots__ = ("_warps", "count", "index", "threads")

    def __init__(self, threads: Array) -> None:
        self.threads = threads
        """Thread numbers, ascending, int64."""
        self.count = count = len(threads)
        first = int(threads[0])
        whole = int(threads[-1]) - first + 1 == count
        self.index: slice | Array = slice(first, first + count) if whole else threads
        """Indexes a row of the register file."""
        self._warps: Array | None = None

    @property
    def warps(self) -> Array:
        """Numbers of their warps where all lanes of each are there; empty where some warp is split."""
        if self._warps is None:
            self._warps = _NONE
            if self.count % 32 == 0:
                rows = self.threads.reshape(-1, 32)
                first = rows[:, 0]
                if not (first & 31).any() and (rows[:, 31] - first == 31).all():
                    self._warps = first >> 5
        return self._warps

    def where(self, mask: Array) -> Lanes | None:
        """Those of them for which `mask` (one element per thread of this set) holds; None when none is left."""
        held = int(np.count_nonzero(mask))
        if held == self.count:
            return self
        return Lanes(self.threads[mask]) if held else None
