"""Errors held against yardsticks: of a whole result, of every slice of it, of every element.

What is as large as the result lies on disk, and is worked on a chunk at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from validator.differential.expected import ALONE, Expected, narrowest
from validator.differential.numbers import Array, in_chunks, marked
from validator.differential.spill import room
from validator.differential.spread import F64
from validator.manifest.contract import Tolerance

__all__ = ["Pooled", "pooled"]

Bools = NDArray[np.bool_]


class Pooled:
    """The elements of a result that are too far off, and by how much."""

    def __init__(self, bad: Bools, worst: float, whole: float) -> None:
        self.bad = bad
        self.worst = worst
        """The largest ratio of an error to what is allowed, of any pool or element."""
        self.whole = whole
        """RMS error over RMS yardstick of all."""


def pooled(tolerance: Tolerance, want: Expected, got: Array, finite: Bools) -> Pooled | None:
    """None: every pool is within its limit. `finite`: elements that are judged so."""
    error, yard = (room(got.shape, np.dtype(np.float64)) for _ in range(2))
    arrays = error, yard, got, want.exact, want.yardstick, finite, want.native
    for off, allowed, have, exact, due, judged, own in in_chunks(*arrays):
        np.abs(np.subtract(have, exact, out=off), out=off)
        off[~judged] = 0.0
        if got.dtype.itemsize < exact.itemsize:
            off[(exact == 0) & (off <= _UNSEEN) & (own.astype(np.float64) == 0)] = 0.0
        allowed[...] = np.where(judged, due, 0.0)
    if not _beyond(narrowest(tolerance), error, yard).any():
        return None  # then every pool of them is within its limit too
    whole, worst, bad = float(_ratio(error, yard, None)), 0.0, np.zeros(got.shape, bool)
    if whole > tolerance.rms_ratio * _widened(yard):
        bad |= _beyond(tolerance.max_ratio, error, yard)
        worst = whole
    by_rows = np.maximum(_of_rows(yard), yard, out=room(yard.shape, yard.dtype))
    if want.alone is not None:
        np.copyto(by_rows, yard, where=want.alone)
    for axes, along in _slices(got.ndim):
        # A slice of so few elements is judged as single elements are: by what its rows allow.
        few = got.size < _POOLED * math.prod(got.shape[a] for a in along)
        ratio = _ratio(error, by_rows if few else yard, axes)
        over = ratio > tolerance.rms_ratio * ALONE
        if np.any(over):
            worst = max(worst, float(np.where(over, ratio, 0).max()))
            far = _beyond(tolerance.rms_ratio, error, yard)
            far &= _spread_back(over, along, got.ndim)
            bad |= far
    bad |= _beyond(ALONE * tolerance.max_ratio, error, by_rows)
    bad &= finite
    if not bad.any():
        return None
    for wrong, off, allowed in in_chunks(bad, error, yard):
        if wrong.any():
            worst = max(worst, float((off[wrong] / np.maximum(allowed[wrong], np.finfo(float).tiny)).max()))
    return Pooled(bad, worst, whole)


def _of_rows(yard: F64) -> F64:
    """RMS of each row, along the last axis with more than one position: what one trusted result happens to be off by at
    a single element says little."""
    if not yard.ndim:
        return yard
    axis = max((a for a, size in enumerate(yard.shape) if size > 1), default=yard.ndim - 1)
    return np.asarray(np.expand_dims(np.sqrt(_energy(yard, (axis,)) / max(yard.shape[axis], 1)), axis))


def _beyond(limit: float, error: F64, yard: F64) -> Bools:
    return marked(partial(_is_beyond, limit), error, yard)


def _is_beyond(limit: float, error: F64, yard: F64) -> Bools:
    return np.asarray(error > limit * yard)


def _slices(axes: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(axes to pool over, axes that are kept): each axis by itself, and every row along the last one."""
    for axis in range(axes):
        if axes > 1:
            yield tuple(a for a in range(axes) if a != axis), (axis,)
    if axes > 2:
        yield (axes - 1,), tuple(range(axes - 1))


def _spread_back(over: NDArray[np.bool_], kept: tuple[int, ...], axes: int) -> NDArray[np.bool_]:
    return over.reshape([over.shape[kept.index(a)] if a in kept else 1 for a in range(axes)])


def _ratio(error: F64, yard: F64, axes: tuple[int, ...] | None) -> F64:
    """RMS error over RMS yardstick; 0 where there is no error."""
    up, down = _energy(error, axes), _energy(yard, axes)
    return np.asarray(np.sqrt(np.divide(up, np.maximum(down, np.finfo(float).tiny))))


def _energy(values: F64, axes: tuple[int, ...] | None) -> F64:
    """Sum of squares over these axes (None: all), with no array of squares in between."""
    kept = () if axes is None else tuple(a for a in range(values.ndim) if a not in axes)
    names = "abcdefgh"[: values.ndim]
    return np.asarray(np.einsum(f"{names},{names}->{''.join(names[a] for a in kept)}", values, values))


_UNSEEN = 2.0**-40
"""What may come out where float64 gives zero: terms as large as a few thousand that cancel leave no less there, and far
out `1 + tanh(x)` and `log(1 + exp(x))` are zero by that alone. Whoever computes them otherwise is right to give it."""
_POOLED = 4
"""Elements of a slice from which its own yardsticks say what it may be off by."""


def _widened(yard: F64) -> float:
    """How much wider the limit is for a whole result: 1 for very many samples of the error, `ALONE` for one.

    Counted along the axis with the fewest: (sum e)^2 / sum e^2 over the energies e of its slices.
    """
    # Any scale serves; a power of two keeps small squares from vanishing and changes nothing else.
    top = max(float(np.max(yard, initial=0.0)), np.finfo(float).tiny)
    fewest = float(yard.size)
    for axes, _ in _slices(yard.ndim):
        of_slices = _energy(yard, axes) / top**2 if top > 1e-150 else _energy(yard / top, axes)
        fewest = min(fewest, float(np.sum(of_slices) ** 2 / max(np.sum(of_slices**2), np.finfo(float).tiny)))
    return float(1 + (ALONE - 1) / np.sqrt(max(fewest, 1.0)))
