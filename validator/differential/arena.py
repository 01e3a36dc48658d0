"""One array in an arena: how it lies there, what stands around it and between its rows, what must not have changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from validator.differential.numbers import Array, bits_of, dtype_of, each_part, flattened, poured, same_bytes
from validator.manifest.values import SHARED_LAYOUTS
from validator.run.channel import DTYPE_NAMES
from validator.run.channel import Array as Descriptor

__all__ = [
    "GUARD",
    "PATTERNS",
    "Written",
    "apart",
    "body_of",
    "byte_of",
    "changed",
    "described",
    "dtype_at",
    "fill",
    "glimpse",
    "is_contiguous",
    "layout_of",
    "repeated",
    "ring",
    "view_of",
]

GUARD = 256
"""Bytes of each guard zone: keeps 256-byte alignment, wider than any vector access."""
PATTERNS = (0xFF, 0x5A)
"""Fill of guard zones and gaps, where nobody draws one (`validator.differential.poison`): NaN in every type that has
one and two signs of zero, then a huge number. A pattern is one byte, or eight of which the last is not zero."""
_FAR = 1 << 32
"""Elements that the last row of a distant array lies from its first, at least: more than an index of 32 bits holds."""
_ROW = 4096
"""Rows of a distant array begin at multiples of this."""
_PAD = 3
"""Elements of the gap between rows, and of the margin of a slice, and from one element of a strided vector to the next:
odd, so that nothing lines up by luck."""
_VECTOR = 16
"""Bytes of a vector access. Where rows are a multiple of it, an even number of them lies such multiples apart: kernels
take their fast paths then, and the slow ones where nothing lines up."""


@dataclass(frozen=True, slots=True)
class Written:
    """An array that is made where it will lie, so that it is nowhere twice."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    write: Callable[[Array], None]
    """Fills an array of this shape and type."""


_DTYPES = tuple(map(dtype_of, DTYPE_NAMES))
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}


def dtype_at(code: int) -> np.dtype[Any]:
    """The element type of the channel's code."""
    return _DTYPES[code]


@lru_cache(1 << 10)
def layout_of(shape: tuple[int, ...], size: int, layout: str) -> tuple[tuple[int, ...], int, int]:
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
    if layout in SHARED_LAYOUTS and shape and 0 not in shape:
        row = step // shape[0]
        strides[0] = apart(shape, layout) * size
        step = strides[0] * (shape[0] - 1) + row
    if layout == "sliced" and shape:
        offset = sum(gap * strides[axis] for axis in {0, len(shape) - 1})
    if layout == "offset":
        offset = max(size, _VECTOR // 2) if fast else size  # as one half of a vector, or as one element is
        step += offset
    return tuple(strides), offset, step


@lru_cache(1 << 10)
def described(shape: tuple[int, ...], dtype: np.dtype[Any], layout: str, arena: int) -> tuple[Descriptor, int]:
    """(an array that lies so in the arena of this number, bytes between its guard zones)."""
    strides, offset, span = layout_of(shape, dtype.itemsize, layout)
    return Descriptor(_CODES[dtype], shape, strides, arena, GUARD + offset), span


def apart(shape: tuple[int, ...], layout: str) -> int:
    """Elements between two positions along the first axis where some are others, too."""
    row = math.prod(shape[1:])
    return 0 if layout == "expanded" else row if row < 2 else row // 2


def is_contiguous(array: Descriptor) -> bool:
    return array.strides == layout_of(array.shape, dtype_at(array.dtype).itemsize, "contiguous")[0]


def body_of(array: Descriptor) -> tuple[int, int]:
    """(offset, bytes) in its arena of contiguous elements."""
    return array.offset, math.prod(array.shape) * dtype_at(array.dtype).itemsize


def view_of(arena: memoryview, array: Descriptor) -> Array:
    return np.ndarray(array.shape, dtype_at(array.dtype), arena, array.offset, array.strides)


_PAGE, _LARGE, _HOLLOW = 4096, 1 << 20, 1 << 30
"""Bytes: of a page; of an arena that takes time to look at; of one that may be mostly holes."""


def glimpse(arena: memoryview) -> Array | None:
    """Eight bytes of every page, the last one first: whether a large result is still what it was. None: a small one."""
    if not _LARGE <= len(arena) <= _HOLLOW:
        return None
    words = np.frombuffer(arena[: (len(arena) - GUARD) // 8 * 8], np.uint64)
    return words[:: -_PAGE // 8].copy()


@lru_cache(1 << 9)
def repeated(pattern: int, count: int) -> bytes:
    """A pattern as so many bytes: aligned elements of any type are the same again and again."""
    return (_word(pattern).to_bytes(8, "little") * -(-count // 8))[:count]


def byte_of(pattern: int) -> int:
    """The byte that stands for it where memory is laid bytewise."""
    return pattern if pattern < 1 << 8 else pattern >> 56


def _word(pattern: int) -> int:
    """Its eight bytes, the first one lowest."""
    return pattern * 0x0101010101010101 if pattern < 1 << 8 else pattern


def ring(arena: memoryview, array: Descriptor, pattern: int) -> tuple[int, int]:
    """The pattern on both sides of contiguous elements; bytes of each side."""
    end = array.offset + view_of(arena, array).nbytes
    arena[: array.offset], arena[end:] = repeated(pattern, array.offset), repeated(pattern, len(arena) - end)
    return array.offset, len(arena) - end


def fill(arena: memoryview, array: Descriptor, value: Array | Written, pattern: int) -> None:
    """The pattern around the elements and between them, and the elements."""
    if not isinstance(value, Written) and _is_small(array, len(arena)) and value.nbytes == len(arena) - 2 * GUARD:
        guard = repeated(pattern, GUARD)
        arena[:] = b"".join((guard, value.tobytes(), guard))
        return
    if _is_distant(array) and not isinstance(value, Written):
        for (row, inner), part in zip(_rows(arena, array), value, strict=True):
            fill(row, inner, part, pattern)
        return
    target, together = view_of(arena, array), is_contiguous(array)
    if together:
        ring(arena, array, pattern)
    else:
        whole = len(arena) // 8 * 8
        np.frombuffer(arena[:whole], np.uint64)[...] = _word(pattern)
        arena[whole:] = repeated(pattern, len(arena) - whole)
    if isinstance(value, Written):
        value.write(target)
    elif target.ndim and together:
        there, here = bits_of(target).reshape(-1), flattened(bits_of(value))
        each_part(lambda part: poured(there[part], here[part]), len(there), there.itemsize)
    else:
        bits_of(target)[...] = bits_of(value)


def changed(memory: memoryview, array: Descriptor, source: Array | None, pattern: int) -> int:
    """Bytes of an arena that are not as they were put there; with no `source` its elements may be anything."""
    if _is_small(array, len(memory)):
        guard = repeated(pattern, GUARD)
        now = memory.tobytes()
        if now.startswith(guard) and now.endswith(guard) and (source is None or now[GUARD:-GUARD] == source.tobytes()):
            return 0
    if _is_distant(array):
        sources = [None] * array.shape[0] if source is None else source
        return sum(changed(*row, part, pattern) for row, part in zip(_rows(memory, array), sources, strict=True))
    arena, size = np.frombuffer(memory, np.uint8), dtype_at(array.dtype).itemsize
    count = int(np.prod(array.shape, dtype=np.int64)) * size
    if is_contiguous(array):
        around = (arena[: array.offset], arena[array.offset + count :])
        wrong = sum(_differing(part, np.frombuffer(repeated(pattern, len(part)), np.uint8)) for part in around)
        if source is None or not count:
            return wrong
        return wrong + _differing(arena[array.offset : array.offset + count], _flat_bytes(source))
    expected: Any = np.full(-(-len(arena) // 8), _word(pattern), np.uint64).view(np.uint8)[: len(arena)]
    bits_of(view_of(memoryview(expected), array))[...] = bits_of(view_of(memory, array) if source is None else source)
    return _differing(arena, expected)


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


_SMALL = 1 << 15
"""Bytes up to which an arena is written and compared in one piece."""


def _is_small(array: Descriptor, length: int) -> bool:
    """Whether an arena of `length` bytes is a short one: guard zone, elements in a row, guard zone."""
    return length <= _SMALL and array.offset == GUARD and is_contiguous(array)


_CHUNK = 1 << 20
"""Bytes that are compared at a time."""


def _differing(now: Array, before: Array) -> int:
    """Bytes that differ."""

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
