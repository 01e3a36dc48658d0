"""Buffers: how a case's arguments lie in memory, what stands around them, and what must not have changed afterwards.

Every array lies in an arena of its own (aliases share one) between two guard zones; gaps of strided layouts are guarded
too. Two patterns and two poisons are used in turn, so a value that comes from outside an array or from an element that
was never written cannot be the same twice.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from validator.differential.numbers import Array, bits_of, each_part, flattened, is_float, largest
from validator.run.channel import DTYPE_NAMES, Call
from validator.run.channel import Array as Descriptor
from validator.run.sandbox import Worker

__all__ = ["GUARD", "PATTERNS", "Placed", "Written", "place", "poisoned"]

GUARD = 256
"""Bytes of each guard zone: keeps 256-byte alignment, wider than any vector access."""
PATTERNS = (0xA5, 0x5A)
"""Fill of guard zones and gaps, first and second call."""
_FAR = 1 << 31
"""Bytes that the last row of a distant array lies from its first, at least."""
_ROW = 4096
"""Rows of a distant array begin at multiples of this."""
_PAD = 3
"""Elements of the gap between rows, and of the margin of a slice: odd, so that nothing lines up by luck."""


@dataclass(frozen=True, slots=True)
class Written:
    """An array that is made where it will lie, so that it is nowhere twice."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    write: Callable[[Array], None]
    """Fills an array of this shape and type."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One call's arguments in memory."""

    worker: Worker
    first_slot: int
    pattern: int
    """What stands in guard zones and gaps."""
    arenas: tuple[memoryview, ...]
    """As the worker sees them."""
    views: dict[str, tuple[int, Descriptor]]
    """Array argument → its arena and where in it."""
    args: tuple[Descriptor, ...]
    room: memoryview | None = None
    """Where results that are returned go."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(map(len, self.arenas))

    def call(self, *, keep: bool = False, more: Iterable[int] = ()) -> Call:
        """The call. `more`: numbers after the arguments."""
        count = len(self.arenas) + (self.room is not None)
        arenas = tuple(self.worker.arena(self.first_slot + i) for i in range(count))
        return Call(arenas, (*self.args, *(_scalar(number) for number in more)), keep, self.room is not None)

    def calls(
        self, numbered: tuple[int, Sequence[int]] | None, *, keep: bool = False, more: Iterable[int] = ()
    ) -> list[Call]:
        """The call, or several in turn on the same buffers. `numbered`: (position of a number, its values in turn)."""
        call = self.call(keep=keep, more=more)
        if numbered is None:
            return [call]
        at, values = numbered
        return [replace(call, args=(*call.args[:at], _scalar(v), *call.args[at + 1 :])) for v in values]

    def view(self, name: str) -> Array:
        """An argument's elements as they are now."""
        arena, array = self.views[name]
        return _view(self.arenas[arena], array)

    def empty(self) -> None:
        """The contents are not needed any more."""
        self.worker.empty(range(self.first_slot, self.first_slot + len(self.arenas) + (self.room is not None)))

    def disturbed(self, inputs: Mapping[str, Any], written: Iterable[str]) -> list[tuple[str, int]]:
        """(argument, bytes that changed) outside the elements that may change: guard zones, gaps and whole inputs.

        `inputs`: what was placed; `written`: arguments whose elements may change.
        """
        allowed, changed = set(written), []
        for index, arena in enumerate(self.arenas):
            names = [n for n, (at, _) in self.views.items() if at == index]
            source = None if allowed.intersection(names) else inputs[names[0]]
            count = _changed(arena, self.views[names[0]][1], source, self.pattern)
            if count:
                changed.append((names[0], count))
        return changed


def _rows(memory: memoryview, array: Descriptor) -> Iterator[tuple[memoryview, Descriptor]]:
    """Each row of a distant array, with guard zones of its own; what lies between them is never touched."""
    size = _dtype(array.dtype).itemsize
    inner = replace(array, shape=array.shape[1:], strides=array.strides[1:], offset=GUARD)
    length = int(np.prod(inner.shape, dtype=np.int64)) * size
    for index in range(array.shape[0]):
        start = array.offset + index * array.strides[0]
        yield memory[start - GUARD : start + length + GUARD], inner


def _is_distant(array: Descriptor) -> bool:
    return len(array.shape) > 1 and array.shape[0] > 1 and array.strides[0] * (array.shape[0] - 1) >= _FAR


def _changed(memory: memoryview, array: Descriptor, source: Array | None, pattern: int) -> int:
    """Bytes of an arena that are not as they were put there; with no `source` its elements may be anything."""
    if _is_distant(array):
        sources = [None] * array.shape[0] if source is None else source
        return sum(_changed(*row, part, pattern) for row, part in zip(_rows(memory, array), sources, strict=True))
    arena, size = np.frombuffer(memory, np.uint8), _dtype(array.dtype).itemsize
    count = int(np.prod(array.shape, dtype=np.int64)) * size
    if array.strides == _layout(array.shape, size, "contiguous")[0]:
        around = (arena[: array.offset], arena[array.offset + count :])
        wrong = sum(int(np.count_nonzero(part != pattern)) for part in around)
        if source is None or not count:
            return wrong
        return wrong + _differing(arena[array.offset : array.offset + count], _flat_bytes(source))
    expected: Any = np.full(arena.shape, pattern, np.uint8)
    bits_of(_view(memoryview(expected), array))[...] = bits_of(_view(memory, array) if source is None else source)
    return _differing(arena, expected)


_CHUNK = 1 << 20
"""Bytes that are compared at a time."""


def _differing(now: Array, before: Array) -> int:
    """Bytes that differ. `before` may be one byte pattern repeated."""

    def in_part(part: slice) -> int:
        wrong = 0
        for start in range(part.start, part.stop, _CHUNK):
            a, b = (x[start : min(start + _CHUNK, part.stop)] for x in (now, before))
            if not np.array_equal(*_in_words(a, b)):
                wrong += int(np.count_nonzero(a != b))
        return wrong

    return sum(each_part(in_part, len(now), 1))


def _in_words(a: Array, b: Array) -> tuple[Array, Array]:
    """The same bytes eight at a time, where they are so many."""
    whole = not len(a) % 8 and not a.ctypes.data % 8 and not b.ctypes.data % 8
    return (a.view(np.uint64), b.view(np.uint64)) if whole else (a, b)


def _flat_bytes(source: Array) -> Array:
    return bits_of(np.ascontiguousarray(source)).reshape(-1).view(np.uint8)


def _view(arena: memoryview, array: Descriptor) -> Array:
    return np.ndarray(array.shape, _dtype(array.dtype), arena, array.offset, array.strides)


_DTYPES: list[np.dtype[Any]] = []


def _dtype(code: int) -> np.dtype[Any]:
    if not _DTYPES:
        from validator.differential.numbers import dtype_of

        _DTYPES.extend(dtype_of(name) for name in DTYPE_NAMES)
    return _DTYPES[code]


def code_of(dtype: np.dtype[Any]) -> int:
    """The channel's code of an element type."""
    return DTYPE_NAMES.index(dtype.name)


def _layout(shape: tuple[int, ...], size: int, layout: str) -> tuple[tuple[int, ...], int, int]:
    """(strides, offset of the first element, bytes spanned) for elements of `size` bytes."""
    pitch = list(shape)
    order = list(range(len(shape)))
    offset = 0
    match layout:
        case "strided" if shape:
            pitch[-1] += _PAD
        case "sliced" if shape:
            pitch = [p + 2 * _PAD if i in (0, len(shape) - 1) else p for i, p in enumerate(pitch)]
        case "transposed" if len(shape) > 1:
            order[-1], order[-2] = order[-2], order[-1]
    strides, step = [0] * len(shape), size
    for axis in reversed(order):
        strides[axis] = step
        step *= max(pitch[axis], 1)
    if layout == "distant" and len(shape) > 1 and shape[0] > 1 and 0 not in shape:
        row = step // shape[0]
        strides[0] = -(-(_FAR + row) // (shape[0] - 1) // _ROW) * _ROW
        step = strides[0] * (shape[0] - 1) + row
    if layout == "sliced" and shape:
        offset = sum(_PAD * strides[axis] for axis in {0, len(shape) - 1})
    if layout == "offset":
        offset, step = size, step + size
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
) -> Placed:
    """Lay out the arguments in a worker's memory, in consecutive slots.

    `over`: first of as many slots whose contents are replaced, at other addresses.
    `aliases`: argument → argument whose memory it shares; `steps`: number → (array, axis), the elements between two
    positions there, whatever the number was; `room`: bytes of what will be returned.
    """
    arenas: list[memoryview] = []
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
        below = None if over is None else over + len(arenas)
        arena = worker.lend(first_slot + len(arenas), GUARD + span + GUARD, below)
        array = Descriptor(code_of(value.dtype), value.shape, strides, len(arenas), GUARD + offset)
        _fill(arena, array, value, pattern)
        views[name] = (len(arenas), array)
        arenas.append(arena)
        args.append(array)
    for at, name in enumerate(inputs):
        if name in steps:
            owner, axis = steps[name]
            seen = views[owner][1]
            args[at] = _scalar(seen.strides[axis] // _dtype(seen.dtype).itemsize)
    returned = worker.lend(first_slot + len(arenas), room) if room else None
    return Placed(worker, first_slot, pattern, tuple(arenas), views, tuple(args), returned)


def _fill(arena: memoryview, array: Descriptor, value: Array | Written, pattern: int) -> None:
    """The pattern around the elements and between them, and the elements."""
    if _is_distant(array) and not isinstance(value, Written):
        for (row, inner), part in zip(_rows(arena, array), value, strict=True):
            _fill(row, inner, part, pattern)
        return
    raw, target = np.frombuffer(arena, np.uint8), _view(arena, array)
    if array.strides == _layout(array.shape, value.dtype.itemsize, "contiguous")[0]:
        raw[: array.offset] = raw[array.offset + target.nbytes :] = pattern
    else:
        raw[...] = pattern
    if isinstance(value, Written):
        value.write(target)
    else:
        there, here = bits_of(target), bits_of(value)
        if target.ndim and array.strides == _layout(array.shape, value.dtype.itemsize, "contiguous")[0]:
            there = there.reshape(-1)
            here = flattened(here)
            each_part(lambda part: np.copyto(there[part], here[part]), len(there), there.itemsize)
        else:
            there[...] = here


def poisoned(array: Array | Written, which: int) -> Array:
    """What an output or a workspace holds before the call: NaN first, then something huge (integers: two patterns)."""
    return np.broadcast_to(_poison(array.dtype, which), array.shape)


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
