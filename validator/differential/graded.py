"""Results of few values: integers, and floats of so few bits that one step is most of what any error comes to.

Rounding to such a type is no error that may be had anywhere: an honest implementation gives the very step that the
exact result rounds to, but where a rounding error on the way takes it over the edge between two. Where that may be, the
reference shows when all of an argument moves by several rounding errors: each argument up or down as a whole, because
moves of single elements cancel as often as they add up. Where a scale is made of the argument itself, that moves
nothing: larger values are also moved by more than smaller ones, and some values against others, equal ones alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.differential.arena import Written
from validator.differential.cases import Inputs, float_arguments
from validator.differential.numbers import Array, eps_of, in_chunks, is_float, largest
from validator.differential.spill import room

__all__ = ["Graded", "at_edges", "count_of", "edges", "is_graded", "only_rounded"]

F64 = NDArray[np.float64]

_ERRORS = 8
"""Rounding errors of the promised precision that an honest implementation may have made before it rounds."""
_OWN = 4
"""The same of an argument's own type, where that is coarser: nobody knows what it had been before it was rounded."""
_APART = 16
"""How much further than all of an argument a value is moved for each factor of two that it is larger."""
_MIXED = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
"""Odd numbers that part values from one another, each in its way."""
_PATTERNS = 4
"""Ways to move the arguments against each other that are tried, each with its opposite."""


def is_graded(dtype: np.dtype[Any]) -> bool:
    """Integers, and floats of at most three bits of mantissa."""
    return dtype.kind in "iu" or (is_float(dtype) and dtype.itemsize == 1)


def edges(inputs: Inputs, unit: float, results: Mapping[str, Array]) -> list[tuple[float, tuple[int, ...]]]:
    """(how far, up or down for each float argument) for every time that the reference is asked; nothing where no
    result is graded. `unit`: half a step from 1 of the promised precision."""
    graded = [array.dtype for array in results.values() if is_graded(array.dtype)]
    names = list(float_arguments(inputs))
    if not graded or not names:
        return []
    # Of one byte, values are scaled up before anybody computes with them: nothing had been rounded to them.
    own = max((eps_of(inputs[n].dtype) / 2 for n in names if inputs[n].dtype.itemsize > 1), default=0.0)
    far = [_ERRORS * unit]
    if any(is_float(dtype) for dtype in graded) and _OWN * own > _ERRORS * unit:
        far.append(_OWN * own)
    signs = [(1, *rest) for rest in product((1, -1), repeat=min(len(names), 8) - 1)][:_PATTERNS]
    full = [tuple(one[k % len(one)] for k in range(len(names))) for one in signs]
    return [(size * way, pattern) for size in far for pattern in full for way in (1, -1)]


def at_edges(inputs: Inputs, wide: Inputs, moves: list[tuple[float, tuple[int, ...]]]) -> Iterator[Inputs]:
    """The inputs moved so; `wide`: in float64, with all that is not moved."""
    names = list(float_arguments(inputs))
    for far, pattern in moves:
        moved = {n: _times(inputs[n], 1.0 + far * sign) for n, sign in zip(names, pattern, strict=True)}
        yield {**wide, **moved}
    for far in (way * moves[0][0] for way in ((1, -1) if moves else ())):
        for by in _WAYS:
            yield {**wide, **{n: _apart(inputs[n], by, far) for n in names}}


def count_of(moves: list[tuple[float, tuple[int, ...]]]) -> int:
    """How many inputs `at_edges` makes of these."""
    return len(moves) + (2 * len(_WAYS) if moves else 0)


def _apart(array: Array, by: Callable[[F64], F64], far: float) -> Written:
    """Every element moved by what its value says."""

    def write(target: Array) -> None:
        for there, here in in_chunks(target, array):
            values = here.astype(np.float64)
            there[...] = values * (1.0 + far * by(values))

    return Written(array.shape, np.dtype(np.float64), write)


def _by_size(values: F64) -> F64:
    """More for larger values, and for positive ones."""
    mantissa, exponent = np.frexp(values)
    size = np.clip(exponent + 2 * np.abs(mantissa), -_APART, _APART)
    return np.asarray(_APART * (size + (values > 0)))


def _mixed(odd: int, values: F64) -> F64:
    """Up or down, as chance has it."""
    return np.where((values.view(np.uint64) * np.uint64(odd)) >> np.uint64(63), 1.0, -1.0)


def _times(array: Array, factor: float) -> Written:
    return Written(array.shape, np.dtype(np.float64), partial(np.multiply, array, factor, casting="unsafe"))


_WAYS: tuple[Callable[[F64], F64], ...] = (_by_size, *(partial(_mixed, odd) for odd in _MIXED))
"""How far each value is moved, in what all of an argument is."""


def only_rounded(native: Array, read: Iterable[Array]) -> bool:
    """Whether a result of a small type is one of these arrays as it rounds to it, beyond its ends cut off."""
    dtype = native.dtype
    if not is_graded(dtype) or not is_float(dtype) or not native.size:
        return False
    top = largest(dtype)
    wider = (one for one in read if one.shape == native.shape and one.itemsize > dtype.itemsize)

    def alike(one: Array) -> bool:
        parts = in_chunks(one, native)
        return all(np.array_equal(_as(a.astype(np.float64), dtype, top), b.astype(np.float64)) for a, b in parts)

    return any(map(alike, wider))


class Graded:
    """What every element of one result may be; one result of the reference at a time is looked at."""

    def __init__(self, exact: F64, native: Array) -> None:
        self._exact, self._native = exact, native
        self._least, self._most = room(exact.shape, exact.dtype), room(exact.shape, exact.dtype)
        self._shown = self._settled = False
        self.forget(np.broadcast_to(np.ones((), bool), exact.shape))

    def forget(self, where: NDArray[np.bool_]) -> None:
        """What results for moved inputs showed of these elements does not count."""
        for least, most, one, own, gone in in_chunks(self._least, self._most, self._exact, self._native, where):
            np.fmin(one, own, out=least, casting="unsafe", where=gone)
            np.fmax(one, own, out=most, casting="unsafe", where=gone)

    def settle(self) -> None:
        """Nothing was computed that could be off: the result is what it is."""
        self._settled = True

    def add(self, probe: Array) -> None:
        """One more result, of inputs that were moved."""
        self._shown = True
        for least, most, one in in_chunks(self._least, self._most, probe):
            np.fmin(least, one, out=least, casting="unsafe")
            np.fmax(most, one, out=most, casting="unsafe")

    @np.errstate(all="ignore")
    def ends(self, moved: F64, ratio: float) -> tuple[Array, Array]:
        """(the least, the greatest) value that each element may have, in the result's type.

        `moved`: squares of what rounding errors move it by; so many times as far it may lie, where the reference does
        not round its results itself: then a move says nothing but that there is an edge.
        """
        dtype = self._native.dtype
        if self._settled:
            return self._native, self._native
        top, ends = largest(dtype), (np.empty(self._native.shape, dtype), np.empty(self._native.shape, dtype))
        itself = all(np.array_equal(one, _as(one, dtype, top), equal_nan=True) for (one,) in in_chunks(self._exact))
        arrays = (*ends, self._least, self._most, self._exact, moved)
        for below, above, least, most, exact, square in in_chunks(*arrays):
            reach = 0.0 if itself else ratio * np.sqrt(square)
            below[...] = np.clip(np.fmin(least, exact - reach), -top, top)
            above[...] = np.clip(np.fmax(most, exact + reach), -top, top)
            if not self._shown:  # the reference takes no float64, so that no rounding error could be tried
                below[...], above[...] = _next(below, -1), _next(above, 1)
        return ends


def _as(values: F64, dtype: np.dtype[Any], top: float) -> F64:
    return np.clip(values, -top, top).astype(dtype).astype(np.float64)


def _next(values: Array, way: int) -> Array:
    """The value beside each one; the last is its own."""
    known = _values(values.dtype)
    at = np.searchsorted(known, values.astype(np.float64)) + way
    return known[np.clip(at, 0, len(known) - 1)].astype(values.dtype)


@cache
def _values(dtype: np.dtype[Any]) -> F64:
    """All finite values of a type of one byte, ascending."""
    values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
    return np.unique(values[np.isfinite(values)])
