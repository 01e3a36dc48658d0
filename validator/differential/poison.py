"""What outputs and workspaces hold before a call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from validator.differential.arena import Written
from validator.differential.numbers import Array, is_float, largest

__all__ = ["poisoned"]


def poisoned(array: Array | Written, which: int) -> Array:
    """What an output or a workspace holds before the call: NaN first, then something huge (integers: two patterns)."""
    return _poison_of(array.dtype, array.shape, which)


@lru_cache(1 << 8)
def _poison_of(dtype: np.dtype[Any], shape: tuple[int, ...], which: int) -> Array:
    """Takes one element's room, and cannot be written."""
    return np.broadcast_to(_poison(dtype, which), shape)


def _poison(dtype: np.dtype[Any], which: int) -> Array:
    """One element."""
    if is_float(dtype):
        value: Array = np.full((), np.nan if which == 0 else largest(dtype) / 4).astype(dtype)
        if which == 0 and not np.isnan(value.astype(np.float64)):  # a type without NaN
            value = np.full((), -largest(dtype)).astype(dtype)
        return value
    if dtype.kind == "b":
        return np.full((), which == 0)
    if dtype.kind == "V":
        return np.full((), (5, 2)[which]).astype(dtype)
    return np.full(dtype.itemsize, (0x41, 0xBE)[which], np.uint8).view(dtype).reshape(())
