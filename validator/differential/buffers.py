"""Buffers: how a case's arguments lie in memory, what stands around them, and what must not have changed afterwards.

Every array lies in an arena of its own (aliases share one) between two guard zones; gaps of strided layouts are guarded
too. Two patterns and two poisons are used in turn, so a value that comes from outside an array or from an element that
was never written cannot be the same twice. Where the system keeps a worker from writing to its inputs, they are laid
down once for all calls with the same values.
"""

from __future__ import annotations

import itertools
import math
import struct
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from validator.differential.numbers import (
    Array,
    bits_of,
    dtype_of,
    each_part,
    flattened,
    is_float,
    largest,
    poured,
    same_bytes,
)
from validator.run.channel import DTYPE_NAMES, EDGE, GIVEN, Call
from validator.run.channel import Array as Descriptor
from validator.run.pool import PoolFull
from validator.run.sandbox import Worker

__all__ = ["GUARD", "PATTERNS", "Book", "Placed", "Written", "dtype_at", "place", "poisoned"]

GUARD = 256
"""Bytes of each guard zone: keeps 256-byte alignment, wider than any vector access."""
PATTERNS = (0xFF, 0x5A)
"""Fill of guard zones and gaps, first and second call: NaN in every type that has one and two signs of zero, so that
it shows even multiplied by zero; then a huge number."""
_FAR = 1 << 32
"""Elements that the last row of a distant array lies from its first, at least: more than an index of 32 bits holds."""
_HOMES = 1 << 29
"""Bit of the slots of arrays that are made where they lie."""
_LOOKED_AT = 1 << 10
"""Elements of a poison that was laid beforehand."""
_WORTH_A_HOME = 1 << 20
"""Bytes of such an array."""
_ROW = 4096
"""Rows of a distant array begin at multiples of this."""
_PAD = 3
"""Elements of the gap between rows, and of the margin of a slice, and from one element of a strided vector to the next:
odd, so that nothing lines up by luck."""
_VECTOR = 16
"""Bytes of a vector access. Where rows are a multiple of it, an even number of them lies such multiples apart: kernels
take their fast paths then, and the slow ones where nothing lines up."""


_NUMBERS = itertools.count(1)
"""Of contents."""


@dataclass(frozen=True, slots=True)
class Written:
    """An array that is made where it will lie, so that it is nowhere twice."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    write: Callable[[Array], None]
    """Fills an array of this shape and type."""


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
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(_HOMES | GIVEN))

    def home(self, worker: Worker, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Memory for an argument where the worker can read it, for as long as somebody uses it: what is made there
        need not be laid out. Ordinary memory for small arrays, and where the worker's has no more room."""
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
        weakref.finalize(flat, self._left, worker, (flat.ctypes.data, size)).atexit = False  # views keep it alive
        return flat.reshape(shape)

    def _left(self, worker: Worker, where: tuple[int, int]) -> None:
        worker.drop(self._homes.pop(where))

    def home_of(self, value: Array, array: Descriptor) -> int | None:
        """The slot where this very array was made, if the callable gets it just as it lies there."""
        slot = self._homes.get((value.ctypes.data, value.nbytes))
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
        few = bits_of(_view(arena, array)).reshape(-1)[:: max(1, value.size // _LOOKED_AT)]
        return bool((few == bits_of(value)[(0,) * value.ndim]).all())


@dataclass(frozen=True, slots=True)
class Placed:
    """One call's arguments in memory."""

    worker: Worker
    slots: tuple[int, ...]
    pattern: int
    """What stands in guard zones and gaps."""
    arenas: tuple[memoryview, ...]
    """As the worker sees them."""
    views: dict[str, tuple[int, Descriptor]]
    """Array argument → its arena and where in it."""
    args: tuple[Descriptor, ...]
    room: memoryview | None = None
    """Where results that are returned go; the last of the slots then."""
    given: Mapping[str, Array] = field(default_factory=dict)
    """Arguments that lie where only the gate can write."""
    book: Book = field(default_factory=Book)
    poisons: Mapping[int, int] = field(default_factory=dict)
    """Arena of a poison → the number of what stands there."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(map(len, self.arenas))

    def call(self, *, keep: bool = False, more: Iterable[int] = ()) -> Call:
        """The call. `more`: numbers after the arguments."""
        arenas = tuple(self.worker.arena(slot) for slot in self.slots)
        args = (*self.args, *(_scalar(number) for number in more))
        numbers = tuple(self._number(at) for at in range(len(self.slots)))
        return Call(arenas, args, keep, self.room is not None, numbers)

    def _number(self, arena: int) -> int:
        """Of what stands in an arena; 0 where anything may."""
        return self.book.number(self.where(arena)) if self.slots[arena] & GIVEN else self.poisons.get(arena, 0)

    def calls(
        self, numbered: tuple[int, Sequence[int]] | None, *, keep: bool = False, more: Iterable[int] = ()
    ) -> list[Call]:
        """The call, or several in turn on the same buffers. `numbered`: (position of a number, its values in turn)."""
        call = self.call(keep=keep, more=more)
        if numbered is None:
            return [call]
        at, values = numbered
        return [replace(call, args=(*call.args[:at], _scalar(v), *call.args[at + 1 :])) for v in values]

    def where(self, arena: int) -> tuple[int, int]:
        """(offset, length) of an arena in its memory."""
        return self.worker.arena(self.slots[arena])[1:]

    def view(self, name: str) -> Array:
        """An argument's elements as they are now."""
        arena, array = self.views[name]
        return _view(self.arenas[arena], array)

    def guard(self) -> None:
        """Put this call's pattern around what lies there for several calls; none of them may be running."""
        for name, value in self.given.items():
            at, array = self.views[name]
            where = self.where(at)
            if self.book.guarded(where, self.pattern):
                continue
            if _is_contiguous(array):
                around = _ring(self.arenas[at], array, self.pattern)
                number = self.book.number(where) if max(around) <= EDGE else 0
                self.book.put(where, value, array, self.pattern, number)
            else:
                _fill(self.arenas[at], array, value, self.pattern)
                self.book.put(where, value, array, self.pattern)

    def disturbed(self, inputs: Mapping[str, Any], written: Iterable[str]) -> list[tuple[str, int]]:
        """(argument, bytes that changed) outside the elements that may change: guard zones, gaps and whole inputs.

        `inputs`: what was placed; `written`: arguments whose elements may change.
        """
        allowed, changed = set(written), []
        for index, arena in enumerate(self.arenas):
            if self.slots[index] & GIVEN:
                continue
            names = [n for n, (at, _) in self.views.items() if at == index]
            source = None if allowed.intersection(names) else inputs[names[0]]
            count = _changed(arena, self.views[names[0]][1], source, self.pattern)
            if count:
                changed.append((names[0], count))
        return changed


def _rows(memory: memoryview, array: Descriptor) -> Iterator[tuple[memoryview, Descriptor]]:
    """Each row of a distant array, with guard zones of its own; what lies between them is never touched."""
    size = dtype_at(array.dtype).itemsize
    inner = replace(array, shape=array.shape[1:], strides=array.strides[1:], offset=GUARD)
    length = int(np.prod(inner.shape, dtype=np.int64)) * size
    for index in range(array.shape[0]):
        start = array.offset + index * array.strides[0]
        yield memory[start - GUARD : start + length + GUARD], inner


def _is_distant(array: Descriptor) -> bool:
    return len(array.shape) > 1 and array.shape[0] > 1 and array.strides[0] * (array.shape[0] - 1) >= _far(array)


def _far(array: Descriptor) -> int:
    return _FAR * dtype_at(array.dtype).itemsize


def _changed(memory: memoryview, array: Descriptor, source: Array | None, pattern: int) -> int:
    """Bytes of an arena that are not as they were put there; with no `source` its elements may be anything."""
    if _is_distant(array):
        sources = [None] * array.shape[0] if source is None else source
        return sum(_changed(*row, part, pattern) for row, part in zip(_rows(memory, array), sources, strict=True))
    if _is_small(array, len(memory)):
        guard = _GUARDS[pattern]
        now = memory.tobytes()
        rest = now[GUARD:-GUARD] if source is None else source.tobytes()
        if now == b"".join((guard, rest, guard)):
            return 0
    arena, size = np.frombuffer(memory, np.uint8), dtype_at(array.dtype).itemsize
    count = int(np.prod(array.shape, dtype=np.int64)) * size
    if _is_contiguous(array):
        around = (arena[: array.offset], arena[array.offset + count :])
        wrong = sum(int(np.count_nonzero(part != pattern)) for part in around)
        if source is None or not count:
            return wrong
        return wrong + _differing(arena[array.offset : array.offset + count], _flat_bytes(source))
    expected: Any = np.full(arena.shape, pattern, np.uint8)
    bits_of(_view(memoryview(expected), array))[...] = bits_of(_view(memory, array) if source is None else source)
    return _differing(arena, expected)


_SMALL = 1 << 15
"""Bytes up to which an arena is written and compared in one piece."""
_GUARDS = {pattern: bytes([pattern]) * GUARD for pattern in PATTERNS}


def _is_small(array: Descriptor, length: int) -> bool:
    """Whether an arena of `length` bytes is a short one: guard zone, elements in a row, guard zone."""
    return length <= _SMALL and array.offset == GUARD and _is_contiguous(array)


_CHUNK = 1 << 20
"""Bytes that are compared at a time."""


def _differing(now: Array, before: Array) -> int:
    """Bytes that differ. `before` may be one byte pattern repeated."""

    def in_part(part: slice) -> int:
        wrong = 0
        for start in range(part.start, part.stop, _CHUNK):
            a, b = (x[start : min(start + _CHUNK, part.stop)] for x in (now, before))
            if not same_bytes(a, b):
                wrong += int(np.count_nonzero(a != b))
        return wrong

    return sum(each_part(in_part, len(now), 1))


def _flat_bytes(source: Array) -> Array:
    return bits_of(np.ascontiguousarray(source)).reshape(-1).view(np.uint8)


def _view(arena: memoryview, array: Descriptor) -> Array:
    return np.ndarray(array.shape, dtype_at(array.dtype), arena, array.offset, array.strides)


_DTYPES = tuple(map(dtype_of, DTYPE_NAMES))
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}


def dtype_at(code: int) -> np.dtype[Any]:
    """The element type of the channel's code."""
    return _DTYPES[code]


def code_of(dtype: np.dtype[Any]) -> int:
    """The channel's code of an element type."""
    return _CODES[dtype]


@lru_cache(1 << 10)
def _layout(shape: tuple[int, ...], size: int, layout: str) -> tuple[tuple[int, ...], int, int]:
    """(strides, offset of the first element, bytes spanned) for elements of `size` bytes."""
    pitch, fast = list(shape), bool(shape) and not shape[0] % 2 and not shape[-1] * size % _VECTOR
    gap = 2 * _VECTOR // size if fast else _PAD
    order = list(range(len(shape)))
    offset = 0
    match layout:
        case "strided" if len(shape) == 1:  # a column of a matrix
            size *= _PAD
        case "strided" if shape:
            pitch[-1] += gap
        case "sliced" if shape:
            pitch = [p + 2 * gap if i in (0, len(shape) - 1) else p for i, p in enumerate(pitch)]
        case "transposed" if len(shape) > 1:
            order[-1], order[-2] = order[-2], order[-1]
    strides, step = [0] * len(shape), size
    for axis in reversed(order):
        strides[axis] = step
        step *= max(pitch[axis], 1)
    if layout == "distant" and len(shape) > 1 and shape[0] > 1 and 0 not in shape:
        row = step // shape[0]
        strides[0] = -(-(_FAR * size + row) // (shape[0] - 1) // _ROW) * _ROW
        step = strides[0] * (shape[0] - 1) + row
    if layout == "sliced" and shape:
        offset = sum(gap * strides[axis] for axis in {0, len(shape) - 1})
    if layout == "offset":
        offset = max(size, _VECTOR // 2) if fast else size  # as one half of a vector, or as one element is
        step += offset
    return tuple(strides), offset, step


def _scalar(value: Any) -> Descriptor:
    if isinstance(value, bool):
        return Descriptor(0, (), (), form=3, value=struct.pack("<q", value))
    if isinstance(value, int):
        return Descriptor(0, (), (), form=1, value=struct.pack("<q", value))
    return Descriptor(0, (), (), form=2, value=struct.pack("<d", float(value)))


def place(
    worker: Worker,
    inputs: Mapping[str, Any],
    layouts: Mapping[str, str] = MappingProxyType({}),
    aliases: Mapping[str, str] = MappingProxyType({}),
    *,
    first_slot: int = 0,
    over: int | None = None,
    pattern: int = PATTERNS[0],
    steps: Mapping[str, tuple[str, int]] = MappingProxyType({}),
    room: int = 0,
    given: Collection[str] = (),
    book: Book | None = None,
    poisons: Book | None = None,
    apart: bool = False,
) -> Placed:
    """Lay out the arguments in a worker's memory, in consecutive slots.

    `over`: first of as many slots whose contents are replaced, at other addresses.
    `aliases`: argument → argument whose memory it shares; `steps`: number → (array, axis), the elements between two
    positions there, whatever the number was; `room`: bytes of what will be returned. `given`: arguments that only the
    gate shall be able to write, by a `book` of its own for each worker; `Placed.guard` comes before the call.
    `poisons`: those that were laid beforehand. `apart`: another call may be running, so that only what it cannot write
    is replaced.
    """
    book, poisons = Book() if book is None else book, Book() if poisons is None else poisons
    arenas: list[memoryview] = []
    slots: list[int] = []
    numbers: dict[int, int] = {}
    views: dict[str, tuple[int, Descriptor]] = {}
    args = []
    for name, value in inputs.items():
        if not isinstance(value, np.ndarray | Written):
            args.append(_scalar(value))
            continue
        if name in aliases:
            views[name] = views[aliases[name]]
            args.append(views[name][1])
            continue
        strides, offset, span = _layout(value.shape, value.dtype.itemsize, layouts.get(name, "contiguous"))
        array = Descriptor(code_of(value.dtype), value.shape, strides, len(arenas), GUARD + offset)
        kind = GIVEN if name in given else 0
        slot = first_slot + len(arenas) | kind
        home = book.home_of(value, array) if kind and isinstance(value, np.ndarray) else None
        below = None if over is None or (apart and not kind) else over + len(arenas) | kind
        arena = worker.lend(slot, GUARD + span + GUARD, below if home is None else home)
        if home is not None and isinstance(value, np.ndarray):
            book.lies(worker.arena(slot)[1:], value, array)
        elif isinstance(value, Written):
            _fill(arena, array, value, pattern)
        elif not kind:
            if not poisons.ready(worker.arena(slot)[1:], value, array, pattern, arena):
                poisons.forget(worker.arena(slot)[1:])
                _fill(arena, array, value, pattern)
            if len(arena) >= _WORTH_A_HOME and value.size and not any(value.strides):
                numbers[len(arenas)] = _number_of_poison(array, value[(0,) * value.ndim].tobytes(), pattern, len(arena))
        elif not book.holds(where := worker.arena(slot)[1:], value, array):
            _fill(arena, array, value, pattern)
            book.put(where, value, array, pattern)
        views[name] = (len(arenas), array)
        arenas.append(arena)
        slots.append(slot)
        args.append(array)
    for at, name in enumerate(inputs):
        if name in steps:
            owner, axis = steps[name]
            seen = views[owner][1]
            args[at] = _scalar(seen.strides[axis] // dtype_at(seen.dtype).itemsize)
    returned = None
    if room:
        slots.append(first_slot + len(arenas))
        returned = worker.lend(slots[-1], room)
    lasting = {name: inputs[name] for name in views if name in given and name not in aliases}
    return Placed(worker, tuple(slots), pattern, tuple(arenas), views, tuple(args), returned, lasting, book, numbers)


def _is_contiguous(array: Descriptor) -> bool:
    return array.strides == _layout(array.shape, dtype_at(array.dtype).itemsize, "contiguous")[0]


def _ring(arena: memoryview, array: Descriptor, pattern: int) -> tuple[int, int]:
    """The pattern on both sides of contiguous elements; bytes of each side."""
    raw, end = np.frombuffer(arena, np.uint8), array.offset + _view(arena, array).nbytes
    raw[: array.offset] = raw[end:] = pattern
    return array.offset, len(raw) - end


def _fill(arena: memoryview, array: Descriptor, value: Array | Written, pattern: int) -> None:
    """The pattern around the elements and between them, and the elements."""
    if _is_distant(array) and not isinstance(value, Written):
        for (row, inner), part in zip(_rows(arena, array), value, strict=True):
            _fill(row, inner, part, pattern)
        return
    if not isinstance(value, Written) and _is_small(array, len(arena)) and value.nbytes == len(arena) - 2 * GUARD:
        ring = _GUARDS[pattern]
        arena[:] = b"".join((ring, value.tobytes(), ring))
        return
    target, together = _view(arena, array), _is_contiguous(array)
    if together:
        _ring(arena, array, pattern)
    else:
        np.frombuffer(arena, np.uint8)[...] = pattern
    if isinstance(value, Written):
        value.write(target)
    elif target.ndim and together:
        there, here = bits_of(target).reshape(-1), flattened(bits_of(value))
        each_part(lambda part: poured(there[part], here[part]), len(there), there.itemsize)
    else:
        bits_of(target)[...] = bits_of(value)


def poisoned(array: Array | Written, which: int) -> Array:
    """What an output or a workspace holds before the call: NaN first, then something huge (integers: two patterns)."""
    return _poison_of(array.dtype, array.shape, which)


@lru_cache(1 << 8)
def _number_of_poison(array: Descriptor, element: bytes, pattern: int, length: int) -> int:
    """The same for the same element throughout, laid out in the same way."""
    return next(_NUMBERS)


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
