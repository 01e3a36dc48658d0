"""Where the buffers of a launch lie on the device: whole arenas, arrays against an unmapped page, rows far apart.

What is known to have lain in an arena before is not sent again, and the host's memory of large ones is pinned.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from validator.gpu.driver import Bytes, Device, DeviceError
from validator.gpu.guarded import Guarded, guarded
from validator.gpu.unchanged import Unchanged

__all__ = ["Arena", "Copy", "Placed", "Placements", "arena_of", "distance"]

ALIGNMENT = 256
"""Bytes: what every allocator gives."""
ROOM = 2 << 20
"""Bytes: a page of device memory."""

Pieces = tuple[tuple[int, int], ...]
"""(start, bytes) of what must be mapped."""
_LARGE = 1 << 20
"""Bytes from which an arena is compared where it lies; smaller ones are sooner brought than compared there."""
_PINNED = 64
"""Arenas of the host that stay pinned."""


@dataclass(frozen=True, slots=True)
class Arena:
    """Host memory that an array lies in, and where in it the array's elements are."""

    memory: Bytes
    offset: int
    """Bytes from the start of `memory` to the array's first element."""
    end: int
    """Bytes from the start of `memory` to behind its last element."""

    @property
    def key(self) -> int:
        """Host address."""
        return int(self.memory.ctypes.data)


def arena_of(array: Any) -> Arena:
    """The memory that `array` is a view of: the outermost array. Strides are not negative."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    flat = root if root.flags.c_contiguous else root.T
    memory = flat.reshape(-1).view(np.uint8)
    offset = int(array.ctypes.data - memory.ctypes.data)
    last = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) if array.size else -array.itemsize
    return Arena(memory, offset, offset + int(last) + array.itemsize)


class Placed(Protocol):
    """Where an array lies for a kernel."""

    @property
    def address(self) -> int: ...
    @property
    def steps(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class Copy:
    """An array on the device."""

    address: int
    """Of its first element."""
    send: Callable[[], None]
    fetch: Callable[[], None]
    """Copies back into the host's memory what the kernel has changed: where nobody may write, this process ends."""
    steps: tuple[int, ...]
    """Elements between two positions along each axis, on the device."""


def distance(rows: int, inside: int) -> int:
    """Elements from row to row so that the last row begins beyond 2^31 elements, and the step itself fits 31 bits.

    `inside`: elements that one row spans. With one row there is nothing to keep apart; with two, the step is 2^31.
    """
    if rows < 2:
        return inside
    least = -(-(1 << 31) // (rows - 1))
    return max(-(-least // ALIGNMENT) * ALIGNMENT, inside)


class Placements:
    """Device memory for one launch after another: what has been allocated serves the next launch again."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._pool: dict[Pieces, list[Guarded]] = {}
        self._used: dict[Pieces, int] = {}
        self._given: dict[tuple[int, str, Pieces], Guarded] = {}
        self._unchanged = Unchanged(device)
        self._pinned: dict[int, Bytes | None] = {}
        """Host address → memory that the device reads and writes by itself; None: the driver refused it."""
        self._holds: dict[int, tuple[int, int]] = {}
        """Device address of what an arena held before the call → its number and bytes."""
        self._numbers: Mapping[int, int] = {}
        self._edge = 0
        self._elsewhere: Mapping[int, int] = MappingProxyType({})

    def holding(
        self, numbers: Mapping[int, int], edge: int, elsewhere: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        """What lies in the next call's arenas, by their host addresses; 0: anything. Equal numbers: the same bytes,
        `edge` of them at either end aside. `elsewhere`: device addresses of those whose memory the gate lays, and looks
        at, there."""
        self._numbers, self._edge, self._elsewhere = numbers, edge, elsewhere

    def begin(self) -> None:
        """Another call: every buffer of the last one may be used again."""
        self._used, self._given = {}, {}
        self.let_go(_PINNED)

    def let_go(self, left: int = 0) -> None:
        """Of the memory that was pinned first; nothing else may lie there before."""
        while len(self._pinned) > left:
            key = next(iter(self._pinned))
            if self._pinned.pop(key) is not None:
                self._device.call("cuMemHostUnregister", key // mmap.PAGESIZE * mmap.PAGESIZE)

    def whole(self, array: Any) -> Copy:
        """The arena as it is, guard zones and gaps too."""
        arena, size = arena_of(array), len(arena_of(array).memory)
        steps = tuple(stride // array.itemsize for stride in array.strides)
        if (there := self._elsewhere.get(arena.key)) is not None:
            return Copy(there + arena.offset, _nothing, _nothing, steps)
        start = self._against_the_end(arena, "whole", size)
        before = self._against_the_end(arena, "before", size) if size >= _LARGE else None

        def send() -> None:
            if before is None:
                self._device.upload(start, arena.memory)
            else:
                self._fill(before, arena)
                self._device.copy(start, before, _up(size, 16))

        def fetch() -> None:
            if before is None:
                now = np.empty(size, np.uint8)
                self._device.fetch(start, now)
                if not np.array_equal(arena.memory, now):
                    arena.memory[...] = now
            elif not self._unchanged(start, before, size):
                arena.memory[0] = arena.memory[0]  # the driver may fail in another way where nobody may write
                self._device.fetch(start, arena.memory)

        return Copy(start + arena.offset, send, fetch, steps)

    def _fill(self, before: int, arena: Arena) -> None:
        """Everything that lies in an arena, to a place of its own on the device: all but its ends from there, if it
        has been there before."""
        self._pin(arena)
        number, size = self._numbers.get(arena.key, 0), len(arena.memory)
        known = [at for at, held in self._holds.items() if number and held == (number, size)]
        if not known:
            self._device.upload(before, arena.memory)
        else:
            if before not in known:
                self._device.copy(before, known[0], size)
            for start in (0, size - self._edge):
                self._device.upload(before + start, arena.memory[start : start + self._edge])
        self._holds[before] = (number, size)

    def _pin(self, arena: Arena) -> None:
        """Pinned memory is copied several times as fast. Memory that only the gate can write cannot be pinned."""
        if arena.key in self._pinned:
            return
        page = mmap.PAGESIZE
        start = arena.key // page * page
        try:
            self._device.call("cuMemHostRegister", start, _up(arena.key + len(arena.memory) - start, page), 0)
        except DeviceError:
            self._pinned[arena.key] = None
        else:
            self._pinned[arena.key] = arena.memory  # nothing else may be mapped there as long as it is pinned

    def tight(self, array: Any) -> Copy:
        """The arena up to the array's end, which lies against a page that is not mapped. Nothing comes back from it.

        Sent from where it lies as a whole, which comes before.
        """
        arena = arena_of(array)
        whole = self._elsewhere.get(arena.key) or self._against_the_end(arena, "whole", len(arena.memory))
        start = self._against_the_end(arena, "tight", arena.end)
        steps = tuple(stride // array.itemsize for stride in array.strides)
        send = partial(self._device.copy, start, whole, arena.end)
        return Copy(start + arena.offset, send, _nothing, steps)

    def distant(self, array: Any) -> Copy:
        """Rows (positions along the first axis) more than 2^31 elements apart; nothing is mapped between them."""
        inside, size = math.prod(array.shape[1:]), array.itemsize
        step = distance(len(array), max(inside, 1))
        starts = [i * step * size for i in range(len(array))]
        pieces = tuple((start, _up(inside * size, ROOM)) for start in starts) or ((0, ROOM),)
        arena = arena_of(array)
        memory = self._memory(arena.key, "distant", pieces)
        first = memory.address + memory.mapped[0].start
        there = self._elsewhere.get(arena.key)
        rows = [] if there is None else [there + arena.offset + i * array.strides[0] for i in range(len(array))]

        def carried(there: Callable[[int, int], tuple[int, int]]) -> None:
            for start, row in zip(starts, rows, strict=True):
                self._device.copy(*there(first + start, row), inside * size)

        def send() -> None:
            for start, row in zip(starts, array, strict=True):
                self._device.upload(first + start, np.ascontiguousarray(row).tobytes())

        def fetch() -> None:
            for start, row in zip(starts, array, strict=True):
                came = self._device.download(first + start, inside * size)
                if came != row.tobytes():
                    row[...] = np.frombuffer(came, row.dtype).reshape(row.shape)

        steps = (step, *np.empty(array.shape[1:], np.uint8).strides)
        if there is not None:  # its rows hold nothing but elements: strided arrays do not come here
            return Copy(first, partial(carried, lambda far, near: (far, near)), partial(carried, _swapped), steps)
        return Copy(first, send, fetch, steps)

    def _against_the_end(self, arena: Arena, use: str, size: int) -> int:
        """Address of `size` bytes for the arena, their end as near to the unmapped page as alignment allows."""
        return self._memory(arena.key, use, ((0, _up(size, ROOM)),)).end - _up(size, ALIGNMENT)

    def _memory(self, key: int, use: str, pieces: Pieces) -> Guarded:
        """Memory for one use of an arena. Arguments that share an arena share it on the device."""
        if (key, use, pieces) not in self._given:
            pool, used = self._pool.setdefault(pieces, []), self._used.get(pieces, 0)
            if used == len(pool):
                pool.append(guarded(self._device, pieces))
            self._given[key, use, pieces], self._used[pieces] = pool[used], used + 1
        return self._given[key, use, pieces]


def _nothing() -> None:
    """Where the gate does it."""


def _swapped(far: int, near: int) -> tuple[int, int]:
    return near, far


def _up(length: int, step: int) -> int:
    """At least one step. Of pages: so that calls of different sizes use the same memory."""
    return -(-max(length, 1) // step) * step
