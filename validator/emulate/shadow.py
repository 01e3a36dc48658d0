"""Who touched which bytes last: records beside a memory, as fine as the narrowest access so far and no finer."""

from __future__ import annotations

import numpy as np

from validator.emulate.lanes import Array

__all__ = ["PLACE_MASK", "THREAD_SHIFT", "Shadow", "clocks_of", "places_of", "record", "strong_of", "threads_of"]

THREAD_SHIFT, _CLOCK, _STRONG = 40, 19, 18
PLACE_MASK = (1 << 18) - 1
_CLOCK_MASK = (1 << (THREAD_SHIFT - _CLOCK)) - 1
_COARSEST = 4
"""log2 of the bytes that one record stands for at first."""


def record(threads: Array, clocks: Array, place: int, strong: bool) -> Array:
    """Thread, clock, program index and whether it was a strong access, in 64 bits; never 0."""
    low = (place & PLACE_MASK) | (strong << _STRONG)
    return ((threads.astype(np.int64) + 1) << THREAD_SHIFT) | ((clocks.astype(np.int64) & _CLOCK_MASK) << _CLOCK) | low


def threads_of(records: Array) -> Array:
    """Thread numbers; -1 where there is no record."""
    return (records >> THREAD_SHIFT) - 1


def clocks_of(records: Array) -> Array:
    return (records >> _CLOCK) & _CLOCK_MASK


def strong_of(records: Array) -> Array:
    return (records >> _STRONG & 1).astype(bool)


def places_of(records: Array) -> Array:
    """Program indices."""
    return records & PLACE_MASK


class Shadow:
    """Records for `size` bytes, a multiple of 16."""

    def __init__(self, size: int) -> None:
        self.shift = _COARSEST
        count = max(size >> _COARSEST, 1)
        self.writer = np.zeros(count, np.int64)
        self.reader = np.zeros(count, np.int64)
        """The last reader since the last write."""
        self.first_reader = np.zeros(count, np.int64)
        self.by_async = np.zeros(count, np.int64)
        """The writer's record where the async proxy wrote last, by 16 bytes."""
        self.shown = np.zeros(count, np.int64)
        """The writer's record where some thread that nothing orders behind that write has read its value."""

    def refine(self, width: int) -> None:
        """Make records no coarser than `width` bytes (a power of two)."""
        shift = width.bit_length() - 1
        if shift < self.shift:
            times = 1 << (self.shift - shift)
            self.writer, self.reader, self.first_reader, self.shown = (
                np.repeat(a, times) for a in (self.writer, self.reader, self.first_reader, self.shown)
            )
            self.shift = shift

    def granules(self, offsets: Array, width: int) -> Array:
        """Indices of the records of each access: shape [n] when one record covers it, else [n, k]."""
        self.refine(width)
        first = offsets >> self.shift
        many = width >> self.shift
        return first if many <= 1 else first[:, None] + np.arange(many)

    def mark_async(self, offsets: Array) -> None:
        """The async proxy wrote these bytes last: it needs no fence to see them."""
        first = offsets >> self.shift
        self.by_async[offsets >> _COARSEST] = self.writer[first]

    def async_wrote(self, offsets: Array) -> Array:
        """Whether the last write of each byte was the async proxy's."""
        found: Array = self.by_async[offsets >> _COARSEST] == self.writer[offsets >> self.shift]
        return found
