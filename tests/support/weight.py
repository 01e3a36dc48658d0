"""What `weigh_*` of `shelf.cu` gives, in numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Weight = tuple[float, float, float, int]
BF16 = np.dtype(ml_dtypes.bfloat16)


def weight_of(got: Any, trusted: Any, away: Any, yard: Any) -> Weight:
    """(largest error in yardsticks, sums of squares of errors and of yardsticks, elements with other bits)."""
    have, native = (array.reshape(-1).astype(np.float64) for array in (got, trusted))
    exact, due = (array.reshape(-1).view(BF16).astype(np.float64) for array in (away, yard))
    with np.errstate(all="ignore"):
        off = have - native
        own = np.where(off == 0, 0, off.astype(np.float32) / due.astype(np.float32)).astype(np.float64)
        ratio = np.abs(own - exact) + np.abs(exact) * 2.0**-7 + np.abs(own) * 2.0**-20 + 2.0**-20
        ratio = np.where(ratio < 1e30, ratio, np.inf)
        error, squares = float(np.sum((ratio * due) ** 2)), float(np.sum(due**2))
    bits = {2: np.uint16, 4: np.uint32}[got.dtype.itemsize]
    differing = np.count_nonzero(got.reshape(-1).view(bits) != trusted.reshape(-1).view(bits))
    return float(np.max(ratio, initial=0)), error, squares, int(differing)
