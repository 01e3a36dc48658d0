"""What a single element may be off by: integers, and floats under the policies that judge each element by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.differential.numbers import Array, is_float, largest
from validator.differential.spread import F64, apart
from validator.manifest.contract import Tolerance

__all__ = ["allowed_steps", "judges_elements", "too_far", "too_many_steps", "ulp_distance", "wrong_elements"]

Bools = NDArray[np.bool_]


def judges_elements(tolerance: Tolerance, dtype: np.dtype[Any]) -> bool:
    """Whether each element of this type is right or wrong by itself."""
    return tolerance.policy in ("exact", "ulp", "absolute") or (
        tolerance.policy == "relative-to-baseline" and not is_float(dtype)
    )


def wrong_elements(
    tolerance: Tolerance, got: Array, native: Array, exact: F64, yardstick: F64, unspecified: Bools
) -> tuple[Bools, Bools]:
    """(elements that are wrong by themselves, elements of which that is known), of a stretch. Floats that are no finite
    numbers everywhere are for somebody else to judge."""
    if not is_float(got.dtype):
        return too_many_steps(tolerance, got, native, exact, yardstick, unspecified), np.ones((), bool)
    wide, own = got.astype(np.float64), native.astype(np.float64)
    finite = np.isfinite(wide) & np.isfinite(own) & (np.abs(exact) <= largest(got.dtype))
    match tolerance.policy:
        case "exact":
            wrong = wide != own
        case "ulp":
            wrong = ulp_distance(got, native) > tolerance.ulp
        case _:
            wrong = too_far(tolerance, got, exact)
    return np.asarray(wrong & finite & ~unspecified), np.asarray(finite | unspecified)


def too_many_steps(
    tolerance: Tolerance, got: Array, native: Array, exact: F64, yardstick: F64, unspecified: Bools
) -> Bools:
    """Of integers. Where the reference at its own types and in float64 choose differently, either is right."""
    away, own = apart(got, native), native.astype(np.float64)
    either = np.where(exact == own, away, np.minimum(away, np.abs(got.astype(np.float64) - exact)))
    return np.asarray(~unspecified & (either > allowed_steps(tolerance, yardstick)))


def allowed_steps(tolerance: Tolerance, yardstick: F64) -> F64 | float:
    """By how many an integer may be off."""
    match tolerance.policy:
        case "exact":
            return 0.0
        case "ulp":
            return float(tolerance.ulp)
        case "absolute":
            return np.maximum(yardstick, tolerance.atol)
        case _:
            return yardstick


def too_far(tolerance: Tolerance, got: Array, exact: F64) -> Bools:
    """Of floats, under the policy `absolute`."""
    error = np.abs(got.astype(np.float64) - exact)
    return np.asarray(error > tolerance.atol + tolerance.rtol * np.abs(exact))


def ulp_distance(a: Array, b: Array) -> NDArray[np.int64]:
    """How many representable values lie between two arrays of the same floating type (finite elements)."""
    one, other = _ordered(a), _ordered(b)
    if one.dtype == object:
        return np.asarray(np.minimum(np.abs(one - other), 1 << 62), dtype=np.int64)
    away = np.subtract(one, other, dtype=np.int64)
    return np.asarray(np.abs(away, out=away))


def _ordered(values: Array) -> NDArray[Any]:
    """Integers that follow each other as the type's values do; both zeros are 0."""
    size = values.dtype.itemsize
    if size == 8:  # the distance of two may need a bit more
        words = np.ascontiguousarray(values).view(np.uint64).astype(object)
        return np.where(words >= 1 << 63, (1 << 63) - words, words)
    bits = np.ascontiguousarray(values).view({1: np.int8, 2: np.int16, 4: np.int32}[size])
    if values.dtype.name == "float4_e2m1fn":  # four bits of a byte
        bits = bits << 4 >> 4
        return np.where(bits < 0, -(bits & 7), bits)
    sign = bits >> (8 * size - 1)  # all ones, or none
    bits = bits & np.iinfo(bits.dtype).max
    bits ^= sign
    bits -= sign
    return bits
