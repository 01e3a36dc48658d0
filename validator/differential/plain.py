"""The short way: results that are plainly right or plainly wrong, seen while nothing as large as they are is made."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.differential.elements import judges_elements, wrong_elements
from validator.differential.expected import ALONE, Expected, as_trusted, narrowest
from validator.differential.numbers import (
    Array,
    bits_of,
    each_part,
    energy,
    flattened,
    in_chunks,
    is_float,
    largest,
    same_bytes,
)
from validator.differential.spread import F64
from validator.differential.weighing import Weigher, Weight
from validator.manifest.contract import Tolerance

__all__ = ["plainly_right", "plainly_wrong", "weighs_little"]


def weighs_little(tolerance: Tolerance, weight: Weight) -> bool:
    """Whether a whole result of such a weight is plainly right."""
    worst, error, due = weight
    limit = narrowest(tolerance)
    # Each element within the limit of a single one: then so is every slice. The sums are of as many roundings as they
    # have terms.
    within = worst <= ALONE * min(tolerance.rms_ratio, tolerance.max_ratio)
    return worst <= limit or (within and math.isfinite(due) and error <= limit**2 * due * (1 - 1e-9))


def plainly_right(tolerance: Tolerance, want: Expected, got: Array) -> bool:
    """Every pool is within its limit because nearly all elements are within the narrowest of all limits, and the pools
    of the few others are looked at: what honest results are; or every element is right by itself. Nothing as large as
    the result is made."""
    if judges_elements(tolerance, got.dtype):
        return _each_is_right(tolerance, want, got)
    if not _has_short_way(tolerance, got):
        return False
    if want.least is not None:  # a step is no error of which a little is right
        return as_trusted(tolerance) and same_bytes(got, want.native)
    others = _beyond_narrowest(tolerance, want, got)
    return others is not None and (not others or _pools_hold(tolerance, want, got, others))


def _each_is_right(tolerance: Tolerance, want: Expected, got: Array) -> bool:
    """What the trusted implementation gives is, but for the policy that only asks how far the exact result is."""
    as_native = as_trusted(tolerance) or not is_float(got.dtype)
    arrays = [flattened(a) for a in (got, want.native, want.exact, want.yardstick, want.unspecified)]

    def right(part: slice) -> bool:
        for have, native, *rest in in_chunks(*(array[part] for array in arrays)):
            if as_native and np.array_equal(bits_of(have), bits_of(native)):
                continue
            wrong, known = wrong_elements(tolerance, have, native, *rest)
            if wrong.any() or not known.all():
                return False
        return True

    return all(each_part(right, got.size, got.itemsize + 20))


_AT_ONCE = 1 << 18
"""Elements that are weighed in one go, before the chunks of them that are not within the narrowest limit."""
_FEW = 256
"""Elements that are not within the narrowest limit whose pools are looked at one by one."""


def _beyond_narrowest(tolerance: Tolerance, want: Expected, got: Array) -> list[int] | None:
    """Flat positions of elements that are not within the narrowest of all limits; None: too many."""
    limit, top, as_native = narrowest(tolerance), largest(got.dtype), as_trusted(tolerance)
    furthest = ALONE * min(tolerance.rms_ratio, tolerance.max_ratio)
    arrays = [flattened(a) for a in (got, want.native, want.exact, want.yardstick, want.unspecified)]

    def inside(part: slice) -> tuple[list[int] | None, bool]:
        found: list[int] = []
        alike, together = as_native, False
        weigh = Weigher(*(array[part] for array in (arrays[0], *arrays[2:4])))

        def harmless(start: int, free: NDArray[np.bool_]) -> bool:
            nonlocal together
            worst, error, due = weigh(start, start + free.size)
            if want.beyond or worst <= limit:
                return not want.beyond
            # As one within the limit of a whole result, and each element within that of a single one: it changes
            # nothing for any pool.
            fits = worst <= furthest and error <= limit**2 * due and not _any(free)
            together |= fits
            return fits

        for at in range(0, part.stop - part.start, _AT_ONCE):
            stretch = [array[part][at : at + _AT_ONCE] for array in arrays]
            alike = alike and np.array_equal(bits_of(stretch[0]), bits_of(stretch[1]))
            if alike or harmless(at, stretch[-1]):
                continue
            for have, native, exact, yard, free in in_chunks(*stretch):
                if not harmless(at, free) and not (as_native and np.array_equal(bits_of(have), bits_of(native))):
                    right = np.abs(have - exact) <= limit * yard
                    if want.beyond:
                        right &= np.abs(exact) <= top
                    found += (part.start + at + np.flatnonzero(~(right | free))).tolist()
                    if len(found) > _FEW:
                        return None, together
                at += have.size
        return found, together

    seen = each_part(inside, got.size, got.itemsize + 20)
    several = [at for some, _ in seen if some is not None for at in some]
    # A stretch may hang on elements of a row that is looked at by itself: both at once would count them twice.
    unsure = bool(several) and any(together for _, together in seen)
    return None if unsure or any(some is None for some, _ in seen) or len(several) > _FEW else several


def _any(free: NDArray[np.bool_]) -> bool:
    """One element may stand for all."""
    return bool((free if any(free.strides) else free[:1]).any())


def _pools_hold(tolerance: Tolerance, want: Expected, got: Array, others: list[int]) -> bool:
    """Whether every pool that holds one of these elements is within its limit; all pools are then.

    A result, and every slice of it along an axis before the last, is made of rows: where each row is within the limit
    of a whole result, they are too.
    """
    if not got.ndim:
        return False
    *rows, columns = np.unravel_index(others, got.shape)
    by_row = [(tuple(at), tolerance.rms_ratio) for at in set(zip(*rows, strict=True))] or [((), tolerance.rms_ratio)]
    by_column = [((..., at), ALONE * tolerance.rms_ratio) for at in (set(columns) if rows else ())]
    single = ALONE * tolerance.max_ratio
    return all(
        abs(float(got[at]) - want.exact[at]) <= single * want.yardstick[at] for at in zip(*rows, columns, strict=True)
    ) and all(_pool_holds(want, got, at, limit) for at, limit in (*by_row, *by_column))


def _pool_holds(want: Expected, got: Array, at: tuple[Any, ...], limit: float) -> bool:
    """RMS error over RMS yardstick of one pool, by `_ratio`; False where something in it is not finite."""
    error = yard = 0.0
    for have, exact, due, free in in_chunks(got[at], want.exact[at], want.yardstick[at], want.unspecified[at]):
        error += energy(np.where(free, 0.0, have - exact))
        yard += energy(np.where(free, 0.0, due))
    return error <= limit**2 * yard


@np.errstate(all="ignore")
def plainly_wrong(tolerance: Tolerance, want: Expected, got: Array, start: int = 0) -> bool:
    """Some element is beyond the widest of all limits: what controls are. `got`: the elements from a flat index on."""
    part = slice(start, start + got.size)
    if judges_elements(tolerance, got.dtype):
        return _one_is_wrong(tolerance, want, got, part)
    if not _has_short_way(tolerance, got):
        return False
    limit = ALONE * tolerance.max_ratio * want.widest
    exact, free = (flattened(array)[part] for array in (want.exact, want.unspecified))
    return any(_one_is_beyond(limit, want, *parts) for parts in in_chunks(got, exact, free))


def _one_is_beyond(limit: float, want: Expected, have: Array, due: F64, free: NDArray[np.bool_]) -> bool:
    """Some element that the reference writes, finite in the type and due to be, is off by more."""
    if not have.size:
        return False
    error = have - due  # in float64
    np.abs(error, out=error)
    furthest = int(error.argmax())  # the first that is no number, if there are such
    most = error[furthest]
    if want.beyond or not math.isfinite(most):
        top = largest(have.dtype)
        error[~(np.isfinite(have.astype(np.float64)) & (np.abs(due) <= top))] = np.nan
    elif most <= limit or not free[furthest]:
        return bool(most > limit)
    return bool((~free & (error > limit)).any())


def _one_is_wrong(tolerance: Tolerance, want: Expected, got: Array, part: slice) -> bool:
    """Some element is wrong by itself, and by more than an honest implementation may be off by anywhere."""
    arrays = [flattened(a)[part] for a in (want.native, want.exact, want.yardstick, want.unspecified)]
    for have, native, *rest in in_chunks(flattened(got), *arrays):
        wrong, _ = wrong_elements(tolerance, have, native, *rest)
        if is_float(got.dtype) and want.least is None:
            wrong &= np.abs(have.astype(np.float64) - native.astype(np.float64)) > want.widest
        if wrong.any():
            return True
    return False


def _has_short_way(tolerance: Tolerance, got: Array) -> bool:
    return tolerance.policy == "relative-to-baseline" and is_float(got.dtype)
