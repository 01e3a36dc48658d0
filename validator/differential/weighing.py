"""Errors of a stretch of a result in yardsticks: in one pass over memory where `native/weighing.c` was compiled."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from validator.differential.native import Pointer, function
from validator.differential.numbers import CHUNK, Array, energy, name_of
from validator.differential.spread import F64

__all__ = ["Weigher", "Weight"]

Weight = tuple[float, float, float]
"""(largest error in yardsticks, infinite where one is no number; sum of squares of errors, of yardsticks)."""

_TYPES = ("float64", "float32", "bfloat16", "float16")
"""Those that it reads."""


class Weigher:
    """Flat arrays: a result, what is exact and the yardstick, of which stretches are weighed; by one thread."""

    def __init__(self, got: Array, exact: F64, yard: F64) -> None:
        self._arrays = got, exact, yard
        in_rows = all(array.flags.c_contiguous and array.size for array in self._arrays)
        compiled = _compiled(name_of(got.dtype)) if in_rows else None
        self._weigh = self._by_numpy if compiled is None else self._in_one_pass(compiled)

    def __call__(self, start: int, stop: int) -> Weight:
        """Of the elements from `start` to `stop`."""
        return self._weigh(start, stop)

    def _in_one_pass(self, compiled: Callable[..., None]) -> Callable[[int, int], Weight]:
        (got, size), (exact, _), (yard, _) = ((array.ctypes.data, array.itemsize) for array in self._arrays)
        out: NDArray[np.float64] = np.empty(3)
        into = out.ctypes.data

        def weigh(start: int, stop: int) -> Weight:
            compiled(got + start * size, exact + 8 * start, yard + 8 * start, stop - start, into)
            worst, error, due = out.tolist()
            return worst, error, due

        return weigh

    def _by_numpy(self, start: int, stop: int) -> Weight:
        """The same, up to the order of sums."""
        worst = error = due = 0.0
        for at in range(start, stop, CHUNK):
            got, exact, yard = (array[at : min(at + CHUNK, stop)] for array in self._arrays)
            off = self._room[: got.size]
            error += energy(np.subtract(got, exact, out=off))
            due += energy(yard)
            np.divide(off, yard, out=off)
            most = max(float(off.max()), -float(off.min()))
            worst = max(worst, most if math.isfinite(most) else math.inf)
        return worst, error, due

    @cached_property
    def _room(self) -> F64:
        """New memory for every chunk would take half the time again."""
        return np.empty(min(CHUNK, self._arrays[0].size))


def _compiled(dtype: str) -> Callable[..., None] | None:
    """What weighs a result of this type, where it was compiled."""
    if dtype not in _TYPES:
        return None
    return function(f"weigh_{dtype}", Pointer, Pointer, Pointer, ctypes.c_size_t, Pointer)  # type: ignore[no-any-return]
