"""The yardstick: how far the reference moves when its inputs do, which is what an honest implementation may be off by.

Four things may part an honest result from the exact one: its own rounding, the trusted implementation's error, what
its inputs had been rounded by, and what a sum of many terms loses in whatever order it is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.differential import passes
from validator.differential.graded import Graded, is_graded
from validator.differential.numbers import Array, copied, eps_of, in_chunks, is_float, smallest
from validator.differential.spill import room, spilled, zeroed

__all__ = ["BARELY", "F64", "Spread", "Undecided", "apart", "yardstick"]

F64 = NDArray[np.float64]

BARELY, _JUMP = 2.0**-10, 2.0**-5
"""A small part of a rounding error; and how much of what all of it moves a result by that may move it by."""


def apart(a: Array, b: Array) -> F64:
    """How far integers are from each other, element by element; of 64 bits too, as long as they are near."""
    if a.dtype != b.dtype or a.dtype.kind not in "iu":
        return np.asarray(np.abs(a.astype(np.float64) - b.astype(np.float64)))
    return (np.maximum(a, b) - np.minimum(a, b)).view(f"u{a.dtype.itemsize}").astype(np.float64)


class Spread:
    """How far the reference moves when its inputs move by a rounding error; one result at a time is looked at."""

    def __init__(self, exact: Array, native: Array) -> None:
        """Keeps the exact result: what is given here may go."""
        self.exact: F64 = room(exact.shape, np.dtype(np.float64))
        copied(self.exact, exact)
        self._native = native
        self._squares: F64 = room(exact.shape, np.dtype(np.float64))
        self._blank = True
        """Nothing stands there yet, not even zeros."""
        self._jumps: NDArray[np.bool_] = np.broadcast_to(np.zeros((), np.bool_), exact.shape)
        """Where the result is another as soon as equal inputs are moved apart."""
        self._tied = False
        self._promised: F64 | None = None
        self.alone: NDArray[np.bool_] | None = None
        """Elements that are exact in the promised precision, whatever others are; known with the yardstick."""
        graded = is_graded(native.dtype)
        self._graded = Graded(self.exact, native) if graded and is_float(native.dtype) else None
        self._over: NDArray[np.bool_] | None = np.zeros(native.shape, bool) if graded and not self._graded else None

    @property
    def _moved(self) -> F64:
        """Squares of how far it moved, element by element; of integers how far."""
        if self._blank:
            zeroed(self._squares)
            self._blank = False
        return self._squares

    def add_edge(self, probe: Array) -> None:
        """One more result, of inputs moved by several rounding errors: it shows how near to an edge the exact one is.

        An integer that goes further than one step is no quantity that was rounded.
        """
        if self._graded is not None:
            self._graded.add(probe)
        if self._over is not None:
            for over, wide, native in in_chunks(self._over, probe, self._native):
                over |= apart(wide, native) == 1

    def settle(self) -> None:
        """Nothing was computed that could be off."""
        if self._graded is not None:
            self._graded.settle()

    def ends(self, ratio: float) -> tuple[Array | None, Array | None]:
        """(least, greatest) that each element of a result of few values may be, before `yardstick` is asked for.

        `ratio`: how much further than probes moved it.
        """
        return (None, None) if self._graded is None else self._graded.ends(self._moved, ratio)

    @np.errstate(all="ignore")
    def add(self, probe: Array, share: float = 1.0) -> None:
        """One more result, of inputs that were moved; `share` of all of its kind."""
        floating = is_float(self._native.dtype)
        if self._graded is not None:
            self._graded.add(probe)
        if floating and passes.added(self._squares, probe, self.exact, share, blank=self._blank):
            self._blank = False
            return
        for moved, wide, exact, native in in_chunks(self._moved, probe, self.exact, self._native):
            if floating:
                moved += share * np.square(_finite(wide.astype(np.float64, copy=False) - exact))
            else:
                np.maximum(moved, apart(wide, native), out=moved)

    @np.errstate(all="ignore")
    def add_barely(self, probe: Array) -> None:
        """One more result, of inputs that were moved by `BARELY` of a rounding error; after those by all of it.

        Not of integers: what lies half way by arithmetic on equal inputs may be rounded to either side.
        """
        self._tied = True
        if not is_float(self._native.dtype):
            return
        if not self._jumps.flags.writeable:
            self._jumps = self._jumps.copy()
        for jumps, moved, wide, exact in in_chunks(self._jumps, self._moved, probe, self.exact):
            away = _finite(wide.astype(np.float64, copy=False) - exact)
            jumps |= np.square(away) > _JUMP**2 * moved

    def forget_jumps(self) -> None:
        """What was seen where equal inputs no longer were equal does not count."""
        self._moved[self._jumps] = 0.0
        if self._graded is not None and self._jumps.any():
            self._graded.forget(self._jumps)

    @np.errstate(all="ignore")
    def add_together(self, probe: Array, share: float = 1.0) -> None:
        """One more result, of inputs of which equal ones are still equal: it counts where others do not."""
        if self._jumps.any():
            self.add(np.where(self._jumps, probe, self.exact), share)

    @np.errstate(all="ignore")
    def add_exactly(self, probe: Array, share: float = 1.0) -> None:
        """One more result, of inputs moved by rounding errors of the promised precision alone; see `_whole`."""
        if not is_float(self._native.dtype):
            return
        if self._promised is None:
            self._promised = spilled(self.exact.shape, self.exact.dtype)
        if passes.added(self._promised, probe, self.exact, share):
            return
        for moved, wide, exact in in_chunks(self._promised, probe, self.exact):
            moved += share * np.square(_finite(wide.astype(np.float64, copy=False) - exact))

    def _whole(self, promised: F64) -> None:
        """Where all of a result is whole numbers, nothing was computed but sums of whole numbers, exact in the promised
        precision: what the result's type holds excuses no rounding of the inputs, which needed none."""
        if all(np.array_equal(one, np.rint(one)) for (one,) in in_chunks(self.exact)):
            self.alone = np.empty(self.exact.shape, bool)
            arrays = self._moved, promised, self.exact, self._native, self.alone
            for moved, narrow, exact, native, alone in in_chunks(*arrays):
                np.equal(native.astype(np.float64), exact, out=alone)
                np.copyto(moved, narrow, where=alone)

    @np.errstate(all="ignore")
    def add_halves(
        self, one: Array, other: Array, parts: int = 2, share: float = 1.0, *, outweighed: float = 0.0
    ) -> None:
        """Results of moving one half of the terms of a sum, and another that shares nothing with it.

        What both move is a sum of such terms, and what one of them moves of it, the rest may move too. What only one of
        them moves hangs on single terms: no order of summation excuses an error there. `parts`: one in so many of the
        terms is in a half. `outweighed`: where one term is most of a sum, what rounding it with each other comes to,
        relative to it; 0 elsewhere.
        """
        if not is_float(self._native.dtype):
            self.add(one)
            self.add(other)
            return
        if self._graded is not None:
            self._graded.add(one)
            self._graded.add(other)
        arrays = self._moved, one, other, self.exact, self._jumps
        if passes.halved(*arrays, parts, share, outweighed):
            return
        for moved, first, second, exact, jumps in in_chunks(*arrays):
            a, b = (np.abs(half.astype(np.float64) - exact) for half in (first, second))
            both = np.minimum(a, b) * parts
            if outweighed:
                both = np.where(np.maximum(a, b) > 0, np.maximum(both, outweighed * np.abs(exact)), 0.0)
            moved += share * np.where(jumps, 0.0, np.square(_finite(both)))

    @np.errstate(all="ignore")
    def yardstick(self) -> F64:
        """What an honest implementation may be off by: rounding, the trusted one's error, the input's own rounding.

        Called once, at the end.
        """
        dtype = self._native.dtype
        if not is_float(dtype):
            return (
                np.where(self._nibbles(), self._moved, self._steps())
                if dtype.kind != "b"
                else np.zeros(self._moved.shape)
            )
        if self._promised is not None:
            self._whole(self._promised)
        if passes.measured(self._moved, self.exact, self._native, 0.5 * eps_of(dtype), smallest(dtype)):
            return self._moved
        for total, exact, native in in_chunks(self._moved, self.exact, self._native):
            total += np.square(_finite(0.5 * eps_of(dtype) * np.abs(exact)))
            total += np.square(_finite(native.astype(np.float64) - exact))
            np.sqrt(total, out=total)
            total += smallest(dtype)
        return self._moved

    def _steps(self) -> F64:
        """How many steps an integer may be off by: one where a rounding error moves it by one (a value on an edge); two
        where it moves it by two and none of the result further, as a sum of two rounded values goes, and no position.

        Such a sum stays where it is when moves take one of them up and the other down, and rounding in between need not
        do that: where values are equal on purpose, and most of a row is on an edge, all of it may be as far off.
        """
        steps = (self._moved == 1) if self._over is None else (self._moved == 1) | self._over
        if self._moved.max(initial=0) > _TWO_STEPS:
            return np.asarray(steps, np.float64)
        steps = np.maximum(steps, self._moved)
        if self._tied and steps.ndim and steps.shape[-1]:
            mostly = np.mean(steps > 0, axis=-1, keepdims=True) >= _MOST_OF_A_ROW
            steps = np.where(mostly, np.max(steps, axis=-1, keepdims=True), steps)
        return np.asarray(steps, np.float64)

    def _nibbles(self) -> NDArray[np.bool_]:
        """Bytes whose upper half, or both halves, a rounding error moves by a step: two values of four bits in one."""
        packed = self._native.dtype.itemsize == 1
        return np.isin(self._moved, _UPPER_STEPS) if packed else np.zeros(self._moved.shape, bool)


_UPPER_STEPS = (15, 16, 17)
"""How far a byte goes whose upper half goes one step, the lower none or one."""
_TWO_STEPS = 2
"""How far an integer goes that is a sum of two rounded values."""
_MOST_OF_A_ROW = 0.5
_DECIDED = 1 / 64
"""Of a step of its type: what rounding errors in a result may come to before its last digit is theirs."""


class Undecided:
    """Where rounding errors of the promised precision alone decide how a result rounds: what nearly cancels."""

    def __init__(self, exact: F64, dtype: np.dtype[Any]) -> None:
        self._exact, self._dtype = exact, dtype
        self.where: NDArray[np.bool_] = np.zeros(exact.shape, bool)

    @np.errstate(all="ignore")
    def add(self, probe: Array) -> None:
        """One more result, of computing in no other precision."""
        if is_float(self._dtype):
            step = _DECIDED * eps_of(self._dtype)
            for found, wide, exact in in_chunks(self.where, probe, self._exact):
                found |= np.abs(wide.astype(np.float64) - exact) > step * np.abs(exact)


def yardstick(exact: F64, native: Array, probes: Iterable[Array]) -> F64:
    """`Spread.yardstick` over these results."""
    several, spread = list(probes), Spread(exact, native)
    for probe in several:
        spread.add(probe, 1 / len(several))
    return spread.yardstick()


def _finite(values: F64) -> F64:
    return np.where(np.isfinite(values), values, 0.0)
