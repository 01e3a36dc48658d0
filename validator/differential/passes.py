"""Passes over large arrays by compiled code, in several threads: each takes what numpy takes five to ten of.

Every function says whether it did it; where nothing was compiled, or for an array that it does not read, whoever asks
does the same by numpy, and every bit of the outcome is the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from validator.differential.native import Pointer, function
from validator.differential.numbers import Array, Source, each_part, name_of

__all__ = ["added", "below", "ends", "halved", "measured", "moved", "packed"]

_TYPES = ("float64", "float32", "bfloat16", "float16")
"""Those that compiled code reads, of results and inputs; all else it gets in float64."""
_WIDE = np.dtype(np.float64)
_REAL, _COUNT = ctypes.c_double, ctypes.c_size_t


def added(total: Array, probe: Array, exact: Array, share: float, *, blank: bool = False) -> bool:
    """Onto each element of a total, a share of the square of how far a result is off there, if that is a number.

    `blank`: whatever stands in the total, it is as if zeros did.
    """
    compiled = _compiled("spread_add", (Pointer,) * 4, (_REAL,), total, probe, exact)
    before = _NOWHERE if blank else total
    return compiled is not None and _done(compiled, (total, before, probe, exact), share)


def halved(
    total: Array, one: Array, other: Array, exact: Array, jumps: Array, parts: float, share: float, outweighed: float
) -> bool:
    """Likewise what both of two results are off by. See `Spread.add_halves`."""
    arrays = total, one, other, exact
    compiled = _compiled("spread_halves", (Pointer,) * 5, (_REAL,) * 3, *arrays)
    free = _free(jumps)
    if compiled is None or free is None:
        return False
    return _done(compiled, (*arrays, free), parts, share, outweighed)


def measured(total: Array, exact: Array, native: Array, half: float, least: float) -> bool:
    """A total of squares made the yardstick, of a result of the trusted implementation. See `Spread.yardstick`."""
    compiled = _compiled(f"yard_{_name(native)}", (Pointer,) * 3, (_REAL,) * 2, total, exact)
    return compiled is not None and _done(compiled, (total, exact, native), half, least)


def ends(exact: Array, yard: Array, unspecified: Array, top: float) -> tuple[bool, float] | None:
    """(no exact value is beyond this, nor no number; the largest finite yardstick where something is said)."""
    compiled = _compiled("ends", (Pointer,) * 3, (_REAL, Pointer), exact, yard)
    free = _free(unspecified)
    if compiled is None or free is None:
        return None
    found = _found(compiled, (exact, yard, free), top)
    return not found[:, 0].any(), float(found[:, 1].max(initial=0.0))


def below(values: Array, least: float) -> bool | None:
    """Whether some element is no zero and smaller than this."""
    compiled = _compiled("below", (Pointer,), (_REAL, Pointer), values)
    return None if compiled is None else bool(_found(compiled, (values,), least).any())


def moved(target: Array, array: Array, eps: float, source: Source) -> bool:
    """Every element times 1 and so much of a bell."""
    draws = Pointer, ctypes.c_uint64, _REAL
    compiled = _compiled(f"move_{_name(array)}", (Pointer,) * 2, draws, target)
    if compiled is None:
        return False
    key, before = source.skipped(array.size)
    into, out_of = target.ctypes.data, array.ctypes.data

    def move(part: slice) -> None:
        here = into + part.start * _WIDE.itemsize, out_of + part.start * array.itemsize
        compiled(here[1], here[0], part.stop - part.start, key, before + part.start, eps)

    each_part(move, array.size, _WIDE.itemsize)
    return True


def packed(native: Array, exact: Array, due: Array, away: Array, yard: Array, *, share: float) -> bool:
    """How far a result of two or four bytes is from the exact one, in a byte, and its yardsticks, in two. See
    `validator.differential.packed`."""
    compiled = _compiled(f"pack_{_name(native)}", (Pointer,) * 5, (_REAL,), exact, due)
    return compiled is not None and _done(compiled, (native, exact, due, away, yard), share)


def _name(array: Array) -> str:
    """Of a type that compiled code reads; nothing else has a function."""
    name = name_of(array.dtype)
    return name if name in _TYPES and array.flags.c_contiguous else ""


def _compiled(name: str, arrays: tuple[Any, ...], rest: tuple[Any, ...], *wide: Array) -> Callable[..., None] | None:
    """A function of arrays, how many elements they have, and what else it is told; of these, float64 is read."""
    if name.endswith("_") or not all(a.dtype == _WIDE and a.flags.c_contiguous and a.size for a in wide):
        return None
    return function(name, *arrays, _COUNT, *rest)  # type: ignore[no-any-return]


def _free(where: Array) -> Array | None:
    """An array of flags as compiled code reads it; empty where it is false throughout; None: neither."""
    if where.flags.c_contiguous:
        return where
    return None if any(where.strides) or where.flat[0] else _NOWHERE


_NOWHERE = np.zeros(0, bool)


def _done(compiled: Callable[..., None], arrays: tuple[Array, ...], *rest: float) -> bool:
    places = [(array.ctypes.data, array.itemsize) if array.size else (0, 0) for array in arrays]

    def of(part: slice) -> None:
        compiled(*(at + part.start * size if at else None for at, size in places), part.stop - part.start, *rest)

    each_part(of, arrays[0].size, _WIDE.itemsize)
    return True


def _found(compiled: Callable[..., None], arrays: tuple[Array, ...], *rest: float) -> Array:
    """Two numbers that it finds of each part."""
    places = [(array.ctypes.data, array.itemsize) if array.size else (0, 0) for array in arrays]

    def of(part: slice) -> Array:
        found: Array = np.zeros(2)
        stretch = (at + part.start * size if at else None for at, size in places)
        compiled(*stretch, part.stop - part.start, *rest, found.ctypes.data)
        return found

    return np.array(each_part(of, arrays[0].size, _WIDE.itemsize))
