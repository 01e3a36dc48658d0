"""What `weigh_*` of `shelf.cu` gives, in numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Weight = tuple[float, float, float, int]
BF16 = np.dtype(ml_dtypes.bfloat16)


def wide(away: Any) -> Any:
    """Floats of eight bits (sign, three of exponent, four of mantissa, 1 / 64 the least); minus zero is no number."""
    codes = away.reshape(-1).astype(np.int64)
    exponent, mantissa = codes >> 4 & 7, codes & 15
    found = np.where(exponent == 0, mantissa, np.ldexp(mantissa + 16.0, exponent - 1)) / 64
    return np.where(codes == 0x80, np.nan, np.where(codes & 0x80, -found, found))


def narrow(away: Any) -> Any:
    """The nearest such float of each; 0x80 of what is too far for one, or no number."""
    all_of_them = wide(np.arange(128))
    codes = np.searchsorted((all_of_them[1:] + all_of_them[:-1]) / 2, np.abs(away), side="right")
    codes |= np.where((away < 0) & (codes > 0), 0x80, 0)
    return np.where(np.abs(away) < 31.5, codes, 0x80).astype(np.uint8)


def weight_of(got: Any, trusted: Any, away: Any, yard: Any) -> Weight:
    """(largest error in yardsticks, sums of squares of errors and of yardsticks, elements with other bits)."""
    have, native = (array.reshape(-1).astype(np.float64) for array in (got, trusted))
    due, far = yard.reshape(-1).view(BF16).astype(np.float64), wide(away)
    with np.errstate(all="ignore"):
        off = have - native
        own = np.where(off == 0, 0, off.astype(np.float32) / due.astype(np.float32)).astype(np.float64)
        lost = np.maximum(2.0**-7, np.abs(far) * 2.0**-5)
        ratio = np.abs(own - far) + lost + np.abs(own) * 2.0**-20 + 2.0**-20
        ratio = np.where(ratio < 1e30, ratio, np.inf)
        error, squares = float(np.sum((ratio * due) ** 2)), float(np.sum(due**2))
    bits = {2: np.uint16, 4: np.uint32}[got.dtype.itemsize]
    differing = np.count_nonzero(got.reshape(-1).view(bits) != trusted.reshape(-1).view(bits))
    return float(np.max(ratio, initial=0)), error, squares, int(differing)
