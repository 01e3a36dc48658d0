"""Large arrays on disk: what a case needs beside its own buffers takes no memory that the system cannot take back."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import tempfile
import weakref
from typing import Any

import numpy as np

from validator.differential.digests import is_known
from validator.differential.numbers import Array, bits_of, each_part, poured

__all__ = ["kept", "room", "spilled", "taken", "zeroed"]

_LARGE = 1 << 21
"""Bytes from which an array lies on disk."""


def spilled(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Zeros: a large array is an unlinked file, mapped; where the disk has no room for it, ordinary memory."""
    if math.prod(shape) * dtype.itemsize < _LARGE:
        return np.zeros(shape, dtype)
    found, old = _room(shape, dtype)
    if old:
        zeroed(found)
    return found


def zeroed(array: Array) -> None:
    """Nothing but zeros from now on."""
    flat, zeros = array.reshape(-1), np.broadcast_to(np.zeros((), array.dtype), array.size)
    each_part(lambda part: poured(flat[part], zeros[part]), len(flat), array.itemsize)


def room(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Of any contents; a large array lies where one before it lay, if it can."""
    return _room(shape, dtype)[0]


def _room(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, bool]:
    """The same, and whether anything may stand there: if not, zeros do."""
    size = math.prod(shape) * dtype.itemsize
    if size < _LARGE:
        return np.empty(shape, dtype), True
    old = _had(size)
    memory = old or _mapped(size)
    if memory is None:
        return np.zeros(shape, dtype), False
    flat = np.frombuffer(memory, dtype)
    weakref.finalize(flat, _spare, memory).atexit = False  # views of it keep it alive
    return flat.reshape(shape), old is not None


def kept(array: Array) -> Array:
    """The same elements, for as long as they are needed."""
    if array.nbytes < _LARGE:
        return array.copy()
    copy = room(array.shape, array.dtype)
    if array.flags.c_contiguous:
        there, here = bits_of(copy).reshape(-1), bits_of(array).reshape(-1)
        each_part(lambda part: np.copyto(there[part], here[part]), len(there), there.itemsize)
    else:
        copy[...] = array
    return copy


def taken(there: Array, known: Array | None, *, copied: bool = True) -> Array:
    """The same elements where nobody else can change them, unless they are not `copied`: those of a known array, if
    they are."""
    if known is not None and is_known(there, known):
        return known
    return kept(there) if copied else there


_SPARE: list[mmap.mmap] = []
"""The last files that were let go of: new pages take several times as long to write as old ones."""
_SPARED, _MOST = 1 << 29, 24
"""Bytes of them, and how many: each holds a descriptor."""


def _spare(memory: mmap.mmap) -> None:
    _SPARE.append(memory)
    while len(_SPARE) > _MOST or sum(map(len, list(_SPARE))) > _SPARED:
        with contextlib.suppress(IndexError):
            _SPARE.pop(0)


def _had(size: int) -> mmap.mmap | None:
    """One of them, of so many bytes."""
    for memory in [m for m in _SPARE if len(m) == size][::-1]:
        with contextlib.suppress(ValueError):  # another thread took it
            _SPARE.remove(memory)
            return memory
    return None


def _mapped(size: int) -> mmap.mmap | None:
    """A file of zeros; None where the disk has no room for it."""
    with tempfile.TemporaryFile() as file:
        status = os.fstatvfs(file.fileno())
        if status.f_bavail * status.f_frsize < 2 * size:
            return None
        file.truncate(size)
        return mmap.mmap(file.fileno(), size)
