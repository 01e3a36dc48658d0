"""Errors of a stretch of a result in yardsticks: in one pass over memory where `native/weighing.c` was compiled."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.differential.numbers import CHUNK, Array, energy
from validator.differential.spread import F64

__all__ = ["Weigher", "Weight"]

Weight = tuple[float, float, float]
"""(largest error in yardsticks, infinite where one is no number; sum of squares of errors, of yardsticks)."""

_LIBRARY = Path(__file__).parent / "native" / "weighing.so"
_TYPES = ("float64", "float32", "bfloat16", "float16")
"""Those that it reads."""


class Weigher:
    """Flat arrays: a result, what is exact and the yardstick, of which stretches are weighed; by one thread."""

    def __init__(self, got: Array, exact: F64, yard: F64) -> None:
        self._arrays = got, exact, yard
        compiled = (
            _compiled().get(got.dtype.name) if all(a.flags.c_contiguous and a.size for a in self._arrays) else None
        )
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


@cache
def _compiled() -> dict[str, Callable[..., None]]:
    """Element type → what weighs a result of it; nothing where nothing was compiled."""
    try:
        library = ctypes.CDLL(str(_LIBRARY))
    except OSError:
        return {}
    return {name: _declared(getattr(library, f"weigh_{name}")) for name in _TYPES}


def _declared(function: Any) -> Callable[..., None]:
    pointer = ctypes.c_void_p
    function.argtypes, function.restype = (pointer, pointer, pointer, ctypes.c_size_t, pointer), None
    return function  # type: ignore[no-any-return]
