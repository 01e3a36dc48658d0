"""What stands where only the gate can write, and poisons that were laid beforehand: neither is laid twice."""

from __future__ import annotations

import itertools
import math
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from validator.differential.arena import GUARD, view_of
from validator.differential.numbers import Array, bits_of
from validator.run.channel import GIVEN
from validator.run.channel import Array as Descriptor
from validator.run.pool import PoolFull
from validator.run.sandbox import Worker

__all__ = ["Book", "number_of_poison"]

_NUMBERS = itertools.count(1)
"""Of contents."""
_HOMES = 1 << 29
"""Bit of the slots of arrays that are made where they lie."""
_LOOKED_AT = 1 << 10
"""Elements of a poison that was laid beforehand."""
_WORTH_A_HOME = 1 << 20
"""Bytes of such an array."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """What lies in a region that only the gate can write."""

    value: weakref.ref[Array]
    strides: tuple[int, ...]
    pattern: int
    number: int
    """Of what stands there, the surroundings of elements in a row aside; no other contents ever have it."""


@dataclass(frozen=True, slots=True)
class Book:
    """What stands where only the gate can write: there it need not be looked at again, nor written twice."""

    _entries: dict[tuple[int, int], _Entry] = field(default_factory=dict)
    """(offset, length) of a region."""
    _homes: dict[tuple[int, int], int] = field(default_factory=dict)
    """(address, bytes) of an array that was made in such a region → the region's slot."""
    _left: deque[tuple[Worker, int]] = field(default_factory=deque)
    """Slots of arrays that are no more: they may end in any thread, and while memory is being lent."""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(_HOMES | GIVEN))

    def home(self, worker: Worker, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Memory for an argument where the worker can read it, for as long as somebody uses it: what is made there
        need not be laid out. Ordinary memory for small arrays, and where the worker's has no more room."""
        while self._left:
            owner, gone = self._left.popleft()
            owner.drop(gone)
        size = math.prod(shape) * dtype.itemsize
        if size < _WORTH_A_HOME:
            return np.empty(shape, dtype)
        slot = next(self._numbers)
        try:
            memory = worker.lend(slot, GUARD + size + GUARD)
        except PoolFull:
            return np.empty(shape, dtype)
        flat = np.frombuffer(memory[GUARD:-GUARD], dtype)
        self._homes[flat.ctypes.data, size] = slot
        weakref.finalize(flat, self._leave, worker, (flat.ctypes.data, size)).atexit = False  # views keep it alive
        return flat.reshape(shape)

    def _leave(self, worker: Worker, where: tuple[int, int]) -> None:
        self._left.append((worker, self._homes.pop(where)))

    def home_of(self, value: Array, array: Descriptor) -> int | None:
        """The slot where this very array was made, if the callable gets it just as it lies there."""
        slot = self._homes.get((value.ctypes.data, value.nbytes)) if self._homes else None
        whole = array.offset == GUARD and array.strides == value.strides and value.flags.c_contiguous
        return slot if whole else None

    def lies(self, where: tuple[int, int], value: Array, array: Descriptor) -> None:
        """An array was made there; nothing is known of what stands around it."""
        if not self.holds(where, value, array):
            self.put(where, value, array, -1)

    def holds(self, where: tuple[int, int], value: Array, array: Descriptor) -> bool:
        """Whether this very array lies there already, laid out in the same way."""
        entry = self._entries.get(where)
        return entry is not None and entry.value() is value and entry.strides == array.strides

    def guarded(self, where: tuple[int, int], pattern: int) -> bool:
        """Whether this pattern stands around it."""
        return self._entries[where].pattern == pattern

    def number(self, where: tuple[int, int]) -> int:
        """Of what stands there."""
        return self._entries[where].number

    def put(self, where: tuple[int, int], value: Array, array: Descriptor, pattern: int, number: int = 0) -> None:
        """An array was laid there; whatever lay there before is gone, but what has its number."""
        self.forget(where)
        self._entries[where] = _Entry(weakref.ref(value), array.strides, pattern, number or next(_NUMBERS))

    def forget(self, where: tuple[int, int]) -> None:
        """Something else stands there, or may."""
        start, end = where[0], where[0] + where[1]
        for offset, length in [known for known in self._entries if known[0] < end and start < sum(known)]:
            del self._entries[offset, length]

    def ready(self, where: tuple[int, int], value: Array, array: Descriptor, pattern: int, arena: memoryview) -> bool:
        """Whether this poison was laid there beforehand, and none of the elements that are looked at was written."""
        if not self.holds(where, value, array) or not self.guarded(where, pattern):
            return False
        if not value.size:
            return True
        few = bits_of(view_of(arena, array)).reshape(-1)[:: max(1, value.size // _LOOKED_AT)]
        return bool((few == bits_of(value)[(0,) * value.ndim]).all())


def number_of_poison(array: Descriptor, value: Array, pattern: int, length: int) -> int:
    """Of the contents of an arena of so many bytes; 0 where it is small, or more than one element stands in it."""
    if length < _WORTH_A_HOME or not value.size or any(value.strides):
        return 0
    return _numbered(array, value[(0,) * value.ndim].tobytes(), pattern, length)


@lru_cache(1 << 8)
def _numbered(array: Descriptor, element: bytes, pattern: int, length: int) -> int:
    """The same for the same element throughout, laid out in the same way."""
    return next(_NUMBERS)
