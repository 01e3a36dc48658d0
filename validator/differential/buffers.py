"""Buffers: how a case's arguments lie in memory, what stands around them, and what must not have changed afterwards.

Every array lies in an arena of its own (aliases share one) between two guard zones; gaps of strided layouts are guarded
too. Two patterns and two poisons are used in turn, so a value that comes from outside an array or from an element that
was never written cannot be the same twice.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from validator.differential.numbers import Array, is_float, largest
from validator.run.channel import DTYPE_NAMES, Call
from validator.run.channel import Array as Descriptor

__all__ = ["GUARD", "PATTERNS", "Placed", "place", "poisoned"]

GUARD = 256
"""Bytes of each guard zone: keeps 256-byte alignment, wider than any vector access."""
PATTERNS = (0xA5, 0x5A)
"""Fill of guard zones and gaps, first and second call."""
_PAD = 3
"""Elements of the gap between rows, and of the margin of a slice: odd, so that nothing lines up by luck."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One call's arguments in memory."""

    arenas: tuple[bytearray, ...]
    views: dict[str, tuple[int, Descriptor]]
    """Array argument → its arena and where in it."""
    args: tuple[Descriptor, ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(len(a) for a in self.arenas)

    def call(self, first_slot: int, *, keep: bool = False, more: Iterable[int] = ()) -> Call:
        """The call, with its arenas in consecutive slots. `more`: numbers after the arguments."""
        args = (*self.args, *(_scalar(number) for number in more))
        return Call(tuple((first_slot + i, a) for i, a in enumerate(self.arenas)), args, keep)

    def view(self, name: str, arenas: tuple[Any, ...]) -> Array:
        """An argument's elements in these arenas (those sent, or those that came back)."""
        arena, array = self.views[name]
        return np.ndarray(array.shape, _dtype(array.dtype), arenas[arena], array.offset, array.strides)

    def disturbed(self, written: Iterable[str], after: tuple[Any, ...]) -> list[tuple[str, int]]:
        """(argument, bytes that changed) outside the elements that may change: guard zones, gaps and whole inputs."""
        allowed = set(written)
        changed = []
        for index, before in enumerate(self.arenas):
            names = [n for n, (arena, _) in self.views.items() if arena == index]
            expected = bytearray(before)
            now = np.frombuffer(after[index], np.uint8)
            if allowed.intersection(names):
                came = tuple(after)
                sent = tuple(expected if i == index else a for i, a in enumerate(self.arenas))
                for name in allowed.intersection(names):
                    # As bytes: an assignment of floats need not keep a NaN's bits.
                    _bytes_of(self.view(name, sent))[...] = _bytes_of(self.view(name, came))
            difference = int(np.count_nonzero(now != np.frombuffer(expected, np.uint8)))
            if difference:
                changed.append((names[0], difference))
        return changed


_DTYPES: list[np.dtype[Any]] = []


def _dtype(code: int) -> np.dtype[Any]:
    if not _DTYPES:
        from validator.differential.numbers import dtype_of

        _DTYPES.extend(dtype_of(name) for name in DTYPE_NAMES)
    return _DTYPES[code]


def code_of(dtype: np.dtype[Any]) -> int:
    """The channel's code of an element type."""
    return DTYPE_NAMES.index(dtype.name)


def _bytes_of(array: Array) -> Array:
    """The same elements as unsigned integers of their size."""
    return array.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize])


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
    inputs: Mapping[str, Any],
    layouts: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | None = None,
    pattern: int = PATTERNS[0],
    steps: Mapping[str, tuple[str, int]] = MappingProxyType({}),
) -> Placed:
    """Lay out the arguments.

    `aliases`: argument → argument whose memory it shares; `steps`: number → (array, axis), the elements between two
    positions there, whatever the number was.
    """
    layouts, aliases = layouts or {}, aliases or {}
    arenas: list[bytearray] = []
    views: dict[str, tuple[int, Descriptor]] = {}
    args = []
    for name, value in inputs.items():
        if not isinstance(value, np.ndarray):
            args.append(_scalar(value))
            continue
        if name in aliases:
            views[name] = views[aliases[name]]
            args.append(views[name][1])
            continue
        strides, offset, span = _layout(value.shape, value.dtype.itemsize, layouts.get(name, "contiguous"))
        arena = bytearray([pattern]) * (GUARD + span + GUARD)
        array = Descriptor(code_of(value.dtype), value.shape, strides, len(arenas), GUARD + offset)
        target: Array = np.ndarray(value.shape, value.dtype, arena, GUARD + offset, strides)
        _bytes_of(target)[...] = _bytes_of(value)
        views[name] = (len(arenas), array)
        arenas.append(arena)
        args.append(array)
    for at, name in enumerate(inputs):
        if name in steps:
            owner, axis = steps[name]
            seen = views[owner][1]
            args[at] = _scalar(seen.strides[axis] // _dtype(seen.dtype).itemsize)
    return Placed(tuple(arenas), views, tuple(args))


def poisoned(array: Array, which: int) -> Array:
    """What an output or a workspace holds before the call: NaN first, then something huge (integers: two patterns)."""
    if is_float(array.dtype):
        bits: Array = np.full(array.shape, np.nan if which == 0 else largest(array.dtype) / 4).astype(array.dtype)
        if which == 0 and not np.all(np.isnan(bits.astype(np.float64))):  # a type without NaN
            bits = np.full(array.shape, -largest(array.dtype)).astype(array.dtype)
        return bits
    if array.dtype.kind == "b":
        return np.full(array.shape, which == 0)
    if array.dtype.kind == "V":
        return np.full(array.shape, (5, 2)[which]).astype(array.dtype)
    return np.full(array.nbytes, (0x41, 0xBE)[which], np.uint8).view(array.dtype).reshape(array.shape)
