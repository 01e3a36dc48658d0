"""Large arrays on disk: what a case needs beside its own buffers takes no memory that the system cannot take back."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from typing import Any

import numpy as np

from validator.differential.numbers import Array

__all__ = ["kept", "spilled"]

_LARGE = 1 << 21
"""Bytes from which an array lies on disk."""


def spilled(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Zeros: a large array is an unlinked file, mapped; where the disk has no room for it, ordinary memory."""
    size = math.prod(shape) * dtype.itemsize
    if size < _LARGE:
        return np.zeros(shape, dtype)
    with tempfile.TemporaryFile() as file:
        status = os.fstatvfs(file.fileno())
        if status.f_bavail * status.f_frsize < 2 * size:
            return np.zeros(shape, dtype)
        file.truncate(size)
        return np.frombuffer(mmap.mmap(file.fileno(), size), dtype).reshape(shape)


def kept(array: Array) -> Array:
    """The same elements, for as long as they are needed."""
    copy = spilled(array.shape, array.dtype)
    copy[...] = array
    return copy
