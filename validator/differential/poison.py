"""What outputs and workspaces hold before a call, and what stands around every array: drawn for each case.

A candidate that knows what a test leaves there could look at it and behave. So two kinds of contents are drawn for each
case from its seed, some of them like what ordinary use leaves behind, and a few small cases have inputs that can be
written. No two that are compared have an element in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validator.differential.arena import PATTERNS, Written
from validator.differential.numbers import Array, Source, derived, is_float, largest, name_of

__all__ = ["Surroundings", "poisoned", "surroundings_of"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a case's calls find around their arrays and in what they are to fill."""

    patterns: tuple[int, int] = PATTERNS
    """Of guard zones, first and second call."""
    poisons: tuple[int, int] = (0, 1)
    """As `poisoned` takes them."""
    writable: bool = False
    """Small inputs lie where the candidate can write to them, and are looked at afterwards."""


_AROUND = (
    ("nan", "high"), ("nan", "low"), ("high", "nan"), ("low", "nan"),
    ("nan", "high"), ("high", "low"), ("plain", "nan"), ("nan", "least"),
)  # fmt: skip
"""Kinds of guard patterns, first and second call: what shows even multiplied by zero, and what wins in a minimum or a
maximum; now and then what may as well be a neighbour's values."""
_BEFORE = (
    ("nan", "huge"), ("nan", "huge"), ("nan", "huge"), ("huge", "nan"),
    ("nan", "huge"), ("plain", "huge"), ("plain", "nan"), ("nan", "plain"),
)  # fmt: skip
"""The same of poisons."""
_WRITABLE = 8
"""One case of so many."""
_FIRST = 2
"""Poisons below are the same for every case."""


@lru_cache(1 << 4)
def surroundings_of(seed: int, *, bytewise: bool = False) -> Surroundings:
    """For a case's seed. `bytewise`: where memory is laid with one byte throughout."""
    source = Source(derived(seed, "surroundings"))
    around, key, open_ = (int(one) for one in source.raw(3))
    kinds = _AROUND[around % len(_AROUND)]
    while True:
        first, second = (_word(kind, source) for kind in kinds)
        if all(a != b for a, b in zip(first, second, strict=True)):
            break
    if bytewise:
        first, second = first[-1:], second[-1:]
    patterns = int.from_bytes(first, "little"), int.from_bytes(second, "little")
    poison = _FIRST + 2 * (key >> 1)
    return Surroundings(patterns, (poison, poison + 1), open_ % _WRITABLE == 0)


def _word(kind: str, source: Source) -> bytes:
    """Eight bytes that are of a kind as elements of any type, as far as one can be; the last one says which."""
    at = [int(one) for one in source.below(1 << 16, (8,))]
    low, high = at[::2], at[1::2]

    def pairs(lows: tuple[int, int], highs: tuple[int, ...], last: int) -> bytes:
        least, most = lows
        ends = [*(highs[one % len(highs)] for one in high[:3]), last]
        return bytes(b for one, end in zip(low, ends, strict=True) for b in (least + one % (most - least + 1), end))

    wide = at[0] % 2 == 0
    match kind:
        case "nan":
            return pairs((0xFF, 0xFF) if wide else (0xF1, 0xFF), (0x7F, 0xFF), 0xFF)
        case "high":  # of float16 too; or the largest integers
            return pairs((0x78, 0x7B), (0x7B,), 0x7B) if wide else pairs((0x70, 0x7E), (0x7F,), 0x7F)
        case "low":
            return pairs((0xF8, 0xFB), (0xFB,), 0xFB) if wide else pairs((0xE0, 0xFE), (0xFE,), 0xFE)
        case "least":  # of integers
            return pairs((0x80, 0x8F), (0x80,), 0x80)
        case _:
            return pairs((0x00, 0xFF), (0x3F, 0xBF, 0x40, 0xC0), 0x3F)


def poisoned(array: Array | Written, which: int) -> Array:
    """What an output or a workspace holds before the call.

    `which`: 0, NaN, and 1, something huge (integers: two patterns), in every element; or what was drawn for a case.
    """
    return _poison_of(array.dtype, array.shape, which)


_VARIED = 1 << 15
"""Bytes of the largest array in which no element is as the next."""


@lru_cache(1 << 8)
def _poison_of(dtype: np.dtype[Any], shape: tuple[int, ...], which: int) -> Array:
    """Cannot be written. A large one takes one element's room."""
    if which < _FIRST:
        return np.broadcast_to(_poison(dtype, which), shape)
    count = int(np.prod(shape, dtype=np.int64))
    varied = count * dtype.itemsize <= _VARIED
    found = _drawn(dtype, count if varied else 1, which)
    found.flags.writeable = False
    return found.reshape(shape) if varied else np.broadcast_to(found.reshape(()), shape)


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


def _drawn(dtype: np.dtype[Any], count: int, which: int) -> Array:
    """So many elements of one kind; the second poison of a case has none of them as the first has it."""
    key, second = divmod(which - _FIRST, 2)
    free = Source(derived(key, name_of(dtype))).raw(count)
    kind, negative = _BEFORE[key % len(_BEFORE)][second], (key // len(_BEFORE) + second) % 2
    if dtype.kind == "b":
        return np.asarray(free % 2 == second).astype(dtype)
    if dtype.itemsize == 1 and (is_float(dtype) or dtype.kind == "V"):
        return _of_few(dtype, kind, negative)[free % len(_of_few(dtype, kind, negative))]
    bits = 8 * dtype.itemsize
    mask, value = _fixed(dtype, kind, bits)
    value ^= negative << (bits - 1) if is_float(dtype) else mask if kind == "huge" and negative else 0
    made = ((~free if second else free) & np.uint64(((1 << bits) - 1) ^ mask)) | np.uint64(value)
    return made.astype(f"u{dtype.itemsize}").view(dtype)


_EXPONENTS = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11}
"""Bits."""


def _fixed(dtype: np.dtype[Any], kind: str, bits: int) -> tuple[int, int]:
    """(bits that are not drawn, what they are where it is positive) of an element of a kind."""
    if not is_float(dtype):
        every = (1 << bits) - 1
        match kind:
            case "huge":  # the greatest, or with all of it the other way round the least
                return every ^ (every >> 8 or 7), (every >> 1) & ~(every >> 8 or 7)
            case "plain":
                return every ^ 7, 0
            case _:
                return 0, 0
    width = _EXPONENTS[dtype.name]
    ones = (1 << width) - 1
    field, place = {"nan": ones, "huge": ones - 2, "plain": ones >> 1}[kind], bits - 1 - width
    mask, value = 1 << (bits - 1) | ones << place, field << place
    quiet = 1 << (place - 1)
    return (mask | quiet, value | quiet) if kind == "nan" else (mask, value)


@lru_cache(1 << 7)
def _of_few(dtype: np.dtype[Any], kind: str, negative: int) -> Array:
    """The values of a small type that are of a kind."""
    if not is_float(dtype):
        return np.asarray({"nan": (5, 6, 7), "huge": (2, 3, 4), "plain": (0, 1)}[kind]).astype(dtype)
    values: NDArray[np.float64] = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
    if dtype.name == "float4_e2m1fn":
        values[16:] = 0.0  # its upper half means nothing
    sign, size = np.signbit(values) == bool(negative), np.abs(values)
    match kind:
        case "nan" if np.isnan(values).any():
            where = np.isnan(values)
        case "plain":
            where = sign & (size >= 0.5) & (size < 2.0)
        case _:
            where = sign & (size >= largest(dtype) / 4) & (size <= largest(dtype))
            if dtype.name == "float4_e2m1fn":
                where = sign & (size >= 2.0)
    found: Array = np.flatnonzero(where).astype(np.uint8).view(dtype)
    return found
