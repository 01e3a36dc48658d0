"""Random numbers that are the same on every machine, and what is known of each element type."""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from validator.differential.native import Pointer, function

__all__ = [
    "CHUNK",
    "STRETCH",
    "Array",
    "Source",
    "bell_of",
    "beside",
    "bits_of",
    "copied",
    "derived",
    "dtype_of",
    "each_part",
    "energy",
    "eps_of",
    "flattened",
    "in_chunks",
    "is_float",
    "largest",
    "marked",
    "name_of",
    "poured",
    "same_bytes",
    "sampled",
    "smallest",
    "starts_of",
]

Array = NDArray[Any]
_T = TypeVar("_T")


def dtype_of(name: str) -> np.dtype[Any]:
    """numpy's dtype of a contract's element type."""
    return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)


@cache
def is_float(dtype: np.dtype[Any]) -> bool:
    """Floating point, ml_dtypes' small formats included."""
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


@cache
def name_of(dtype: np.dtype[Any]) -> str:
    """numpy works it out anew each time it is asked, which takes longer than to draw a small array."""
    return dtype.name


def _info(dtype: np.dtype[Any]) -> Any:
    about: Any = ml_dtypes.finfo if is_float(dtype) else ml_dtypes.iinfo
    return about(dtype)


@cache
def eps_of(dtype: np.dtype[Any]) -> float:
    """Distance from 1 to the next value."""
    return float(_info(dtype).eps)


@cache
def largest(dtype: np.dtype[Any]) -> float:
    """Largest finite value."""
    return 1.0 if dtype.kind == "b" else float(_info(dtype).max)


@cache
def smallest(dtype: np.dtype[Any]) -> float:
    """Least value above zero, subnormals included."""
    return float(_info(dtype).smallest_subnormal)


CHUNK = 1 << 15
"""Elements that are worked on at a time where a whole array would need temporary ones as large."""


STRETCH = 1 << 12
"""Elements that are looked at where a few tell enough."""


def in_chunks(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """The same stretch of each array (all of one shape), flat, a chunk at a time; views where the memory allows.

    An array in which one element stands for all (zero strides) stays one.
    """
    flat = [flattened(array) for array in arrays]
    if 0 < arrays[0].size <= CHUNK:
        yield tuple(flat)
        return
    for start in range(0, arrays[0].size, CHUNK):
        yield tuple(part[start : start + CHUNK] for part in flat)


def marked(test: Callable[..., Array], *arrays: Array) -> NDArray[np.bool_]:
    """Where a test of elements holds, asked a chunk at a time."""
    found = np.empty(arrays[0].shape, bool)
    for into, *parts in in_chunks(found, *arrays):
        into[...] = test(*parts)
    return found


def sampled(*arrays: Array, chunks: int = 32) -> Iterator[tuple[Array, ...]]:
    """As `in_chunks`; of large arrays so many short stretches only, spread evenly, from the first chunk to the last."""
    flat = [flattened(array) for array in arrays]
    length = CHUNK if arrays[0].size <= chunks * CHUNK else STRETCH
    for start in starts_of(arrays[0].size, chunks):
        yield tuple(part[start : start + length] for part in flat)


def starts_of(size: int, chunks: int) -> list[int]:
    """Where at most so many chunks of an array begin."""
    last = max(-(-size // CHUNK) - 1, 0)
    few = min(chunks - 1, last)
    return [last * k // few * CHUNK for k in range(few + 1)] if few else [0][: size > 0]


_LARGE = 1 << 22
"""Bytes from which several threads share the work (numpy lets go of the interpreter meanwhile)."""
_THREADS = min(8, os.cpu_count() or 1)
_TAKEN: ContextVar[int] = ContextVar("processors that somebody else needs", default=0)


@contextmanager
def beside(others: int) -> Iterator[None]:
    """Leave so many processors to what runs meanwhile: a candidate that is slowed down saves no time."""
    token = _TAKEN.set(others)
    try:
        yield
    finally:
        _TAKEN.reset(token)


def each_part(function: Callable[[slice], _T], count: int, size: int) -> list[_T]:
    """The function of every stretch of `count` elements of `size` bytes, in order; large ones in several threads."""
    if count * size < _LARGE:  # how many processors there are takes as long to ask as to do some of it
        return [function(slice(0, count))]
    threads = min(_THREADS, (os.cpu_count() or 1) - _TAKEN.get())
    parts = max(1, min(threads, count * size // _LARGE + 1))
    step = -(-max(count, 1) // parts // 64) * 64
    stretches = [slice(start, min(start + step, count)) for start in range(0, max(count, 1), step)]
    if len(stretches) == 1:
        return [function(stretches[0])]

    def quietly(stretch: slice) -> _T:
        with np.errstate(all="ignore"), beside(os.cpu_count() or 1):  # nothing in here waits for these threads
            return function(stretch)

    return list(_pool().map(quietly, stretches))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "compare")


def copied(target: Array, source: Array) -> None:
    """Every element in the type of another array of its shape; many in several threads."""
    if not (target.flags.c_contiguous and source.flags.c_contiguous):
        target[...] = source
        return
    into, out_of = target.reshape(-1), source.reshape(-1)
    each_part(lambda part: np.copyto(into[part], out_of[part], casting="unsafe"), len(into), into.itemsize)


def energy(values: NDArray[np.float64]) -> float:
    """Sum of squares of one axis; not by BLAS, whose threads wait for work at full speed."""
    return float(np.einsum("i,i->", values, values))


_SMALL = 1 << 11
"""Elements up to which writing them out takes less time than saying that they are all one."""


def flattened(array: Array) -> Array:
    """One axis; an array in which one element stands for all stays one, unless it is small."""
    if array.size > _SMALL and not any(array.strides):
        return np.broadcast_to(array[(0,) * array.ndim], (array.size,))
    return array.reshape(-1)


def poured(target: Array, value: Array) -> None:
    """Copy a flat array into another; one element that stands for all goes in by blocks that stay in the cache, which
    takes half the time of reading it again for each."""
    if any(value.strides) or value.nbytes <= _BLOCK:
        np.copyto(target, value)
        return
    pour = function("pour", Pointer, ctypes.c_size_t, ctypes.c_char_p)
    if pour is not None and target.flags.c_contiguous:
        pour(target.ctypes.data, target.nbytes, value[:1].tobytes() * (_PERIOD // value.itemsize))
        return
    block = np.array(value[: _BLOCK // value.itemsize])
    for start in range(0, len(target), len(block)):
        part = target[start : start + len(block)]
        part[...] = block[: len(part)]


_BLOCK = 1 << 17
"""Bytes of it that are written at a time."""
_PERIOD = 64
"""Bytes that compiled code repeats, as in `native/pouring.c`."""


def bits_of(array: Array) -> Array:
    """The same elements as unsigned integers of their size."""
    return array.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize])


def same_bytes(a: Array, b: Array) -> bool:
    """Whether two arrays have one shape and type, and the same bits throughout; large ones in several threads."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.size <= _SMALL:
        return a.tobytes() == b.tobytes()
    if not (a.flags.c_contiguous and b.flags.c_contiguous):
        return bool(np.array_equal(bits_of(a), bits_of(b)))
    one, other = a.ctypes.data, b.ctypes.data

    def same(part: slice) -> bool:
        return bool(_memcmp(one + part.start, other + part.start, part.stop - part.start) == 0)

    return all(each_part(same, a.nbytes, 1))


_memcmp = ctypes.CDLL(None).memcmp
"""Lets go of the interpreter, and reads memory as fast as that goes; no comparison of numpy does."""
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def derived(*parts: object) -> int:
    """A 64-bit seed from a root seed and names."""
    return int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:8], "little")


def bell_of(raw: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Mean 0, variance 1, within ±3.5, of random bits: the sum of their four 16-bit parts."""
    parts = raw.view(np.uint16).reshape(*raw.shape, 4)
    total: NDArray[np.float64] = parts[..., 0].astype(np.float64)
    for k in range(1, 4):
        total += parts[..., k]
    total -= 131070.0
    total *= 1.7320508 / 65536.0
    return total


def _drawing(values: Array) -> Callable[..., None] | None:
    """What draws into a flat array, where it was compiled for its type."""
    name = name_of(values.dtype)
    if name not in _DRAWN or not values.flags.c_contiguous:
        return None
    arguments = Pointer, ctypes.c_size_t, Pointer, ctypes.c_uint64
    return function(f"bell_{name}", *arguments)  # type: ignore[no-any-return]


_DRAWN = ("float64", "float32", "bfloat16")


_IDLE: list[np.random.Philox] = []
"""Generators that nobody draws from any more."""
_MANY = 64
_WORDS = 4
"""Of a block of the stream."""


def _started(key: NDArray[np.uint64], blocks: int) -> Any:
    """A generator's state after so many blocks."""
    words = {"counter": np.array([blocks, 0, 0, 0], np.uint64), "key": key}
    left = {"buffer": np.zeros(_WORDS, np.uint64), "buffer_pos": _WORDS, "has_uint32": 0, "uinteger": 0}
    return {"bit_generator": "Philox", "state": words, **left}


_WORD = (1 << 64) - 1


class Source:
    """A counter-based stream of raw bits (Philox); every number is made from them with exact arithmetic."""

    def __init__(self, seed: int) -> None:
        self._key: NDArray[np.uint64] = np.array([seed & _WORD, seed >> 64], np.uint64)
        self._bits: np.random.Philox | None = None
        self._drawn = self._made_by_numpy = 0
        """Words of the stream until now; where numpy's generator is in it."""

    def __del__(self) -> None:
        if self._bits is not None and len(_IDLE) < _MANY:
            _IDLE.append(self._bits)

    def raw(self, count: int) -> NDArray[np.uint64]:
        if self._bits is None or self._made_by_numpy != self._drawn:
            try:
                self._bits = self._bits or _IDLE.pop()  # a new one takes longer than all that most are asked for
            except IndexError:
                self._bits = np.random.Philox(0)
            self._bits.state = _started(self._key, self._drawn // _WORDS)
            self._bits.random_raw(self._drawn % _WORDS)
        self._drawn += count
        self._made_by_numpy = self._drawn
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64).reshape(count)

    def skipped(self, count: int) -> tuple[int, int]:
        """(address of the stream's key, words before these) for compiled code that makes the next `count` words."""
        before, self._drawn = self._drawn, self._drawn + count
        return self._key.ctypes.data, before

    def uniform(self, shape: Sequence[int]) -> NDArray[np.float64]:
        """In [0, 1), multiples of 2^-53."""
        return self._made(shape, lambda raw: (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def bell(self, shape: Sequence[int]) -> NDArray[np.float64]:
        """Mean 0, variance 1, within ±3.5: the sum of four 16-bit uniforms (no libm, so no platform differences)."""
        total: NDArray[np.float64] = np.empty(math.prod(shape))
        self.bell_into(total)
        return total.reshape(tuple(shape))

    def bell_into(self, values: Array) -> None:
        """The same, rounded to the type of a flat array."""
        compiled = _drawing(values)
        if compiled is None:
            for (part,) in in_chunks(values):
                part[...] = self.bell((len(part),)) if values.dtype != np.float64 else bell_of(self.raw(len(part)))
            return
        at, (key, before) = values.ctypes.data, self.skipped(len(values))

        def draw(part: slice) -> None:
            compiled(at + part.start * values.itemsize, part.stop - part.start, key, before + part.start)

        each_part(draw, len(values), values.itemsize)

    def below(self, limit: int, shape: Sequence[int], dtype: type[np.signedinteger[Any]] = np.int64) -> Array:
        """Integers in [0, limit)."""
        most = np.uint64(min(max(limit, 1), _WORD))
        return self._made(shape, lambda raw: (raw % most).astype(dtype))

    def _made(self, shape: Sequence[int], of: Callable[[NDArray[np.uint64]], Array]) -> Array:
        """What each 64 bits become; many of them a chunk at a time."""
        count = math.prod(shape)
        found = of(self.raw(min(count, CHUNK)))
        if count > CHUNK:
            first, found = found, np.empty(count, found.dtype)
            found[:CHUNK] = first
            for (part,) in in_chunks(found[CHUNK:]):
                part[...] = of(self.raw(len(part)))
        return found.reshape(tuple(shape))

    def order(self, count: int) -> NDArray[np.int64]:
        """A permutation."""
        return np.argsort(self.raw(count), kind="stable").astype(np.int64)
