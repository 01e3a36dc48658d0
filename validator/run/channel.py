"""The channel between the gate and a worker: fixed binary frames around raw buffers.

A frame is a header (magic, type, flags, nonce, payload length) and a payload whose every part has a declared length
that is checked against what is there. Nothing is unpickled, evaluated or formatted; text is only ever an error message.
Used on both sides: the worker loads this file by path, so it imports the standard library alone.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

__all__ = [
    "DTYPE_NAMES",
    "HEADER",
    "MAX_AXES",
    "Array",
    "Buffer",
    "Call",
    "Frame",
    "Kind",
    "ProtocolError",
    "Result",
    "coalesced",
    "pack_frame",
    "unpack_header",
]

MAGIC = b"VRC1"
HEADER = struct.Struct("<4sHHQQ")
"""magic, frame type, flags, nonce (chosen by the gate, echoed by the worker), payload bytes."""
MAX_AXES = 8
SMALL = 1 << 16
"""Bytes up to which copying a part is cheaper than writing it by itself."""
Buffer: TypeAlias = bytes | bytearray | memoryview
MAX_PARTS = 4096
"""Arguments, arenas or results in one frame."""

DTYPE_NAMES = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn",
    "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "int4", "uint4", "bool",
)  # fmt: skip
"""Element types by code. Append only."""

_COUNTS = struct.Struct("<II")
_ARENA = struct.Struct("<IQ")
_ARRAY = struct.Struct(f"<BBBBIQ{MAX_AXES}q{MAX_AXES}q8s")


class ProtocolError(Exception):
    """A frame that is not what was asked for."""


class Kind(IntEnum):
    """Frame types."""

    LOAD = 1
    """gate → worker: a JSON object, `{"adapter", "target", "options", "launches", "forbidden"}` (`adapters`)."""
    CALL = 2
    """gate → worker: a `Call`."""
    RECALL = 3
    """gate → worker: send the buffers of an earlier call again, as they are now; 8 bytes, its nonce."""
    READY = 16
    """worker → gate, once, before anything untrusted is imported: what is enforced, `name=value` lines."""
    LOADED = 17
    RESULT = 18
    """worker → gate: a `Result`."""
    ERROR = 19
    """worker → gate: the callable raised; UTF-8 text."""
    MEMORY = 20
    """worker → gate: the callable ran out of memory; UTF-8 text."""
    ABSENT = 21
    """worker → gate: this machine or this adapter cannot run the callable; UTF-8 text."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as received."""

    kind: Kind
    nonce: int
    payload: Buffer


@dataclass(frozen=True, slots=True)
class Array:
    """A typed view into an arena, or a value passed by value."""

    dtype: int
    """Index into `DTYPE_NAMES`."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Bytes."""
    arena: int = 0
    """Index into the frame's arenas; for a result, 1 + the arena it lies in, 0 for none."""
    offset: int = 0
    """Bytes from the arena's start; for a result that lies in no arena, bytes of its data."""
    form: int = 0
    """0 array, 1 scalar of integer type, 2 scalar of float type, 3 scalar of bool type, 4 not an array at all."""
    value: bytes = bytes(8)
    """A scalar's 8 bytes (little endian int64 or float64)."""

    def pack(self) -> bytes:
        if len(self.shape) > MAX_AXES:
            raise ProtocolError(f"{len(self.shape)} axes, at most {MAX_AXES} are supported")
        pad = (0,) * (MAX_AXES - len(self.shape))
        axes = (*self.shape, *pad, *self.strides, *pad)
        return _ARRAY.pack(self.form, self.dtype, len(self.shape), 0, self.arena, self.offset, *axes, self.value)

    @classmethod
    def unpack(cls, data: bytes | memoryview, at: int) -> Array:
        form, dtype, axes, _, arena, offset, *sizes, value = _ARRAY.unpack_from(data, at)
        if axes > MAX_AXES or dtype >= len(DTYPE_NAMES) or form > 4:
            raise ProtocolError("array descriptor out of range")
        shape, strides = tuple(sizes[:axes]), tuple(sizes[MAX_AXES : MAX_AXES + axes])
        if any(s < 0 for s in shape):
            raise ProtocolError("array descriptor with a negative size")
        return cls(dtype, shape, strides, arena, offset, form, value)


@dataclass(frozen=True, slots=True)
class Call:
    """One call: arenas by slot (a slot that the worker has seen keeps its address), arguments as views into them."""

    arenas: tuple[tuple[int, Buffer], ...]
    """(slot, bytes)."""
    args: tuple[Array, ...]
    keep: bool = False
    """The worker keeps this call's buffers for a later `RECALL`."""

    def pack(self) -> list[Buffer]:
        head = [_COUNTS.pack(len(self.arenas), len(self.args) | (int(self.keep) << 31))]
        head += [_ARENA.pack(slot, len(data)) for slot, data in self.arenas]
        head += [arg.pack() for arg in self.args]
        return [b"".join(head), *(data for _, data in self.arenas)]

    @classmethod
    def unpack(cls, payload: memoryview) -> Call:
        arenas, args, at, keep = _unpack_parts(payload)
        slots = tuple((slot, payload[at_ : at_ + length]) for slot, length, at_ in _placed(arenas, at, len(payload)))
        return cls(slots, args, keep)


@dataclass(frozen=True, slots=True)
class Result:
    """What came back: every arena as it is after the call, then what was returned."""

    arenas: tuple[Buffer, ...]
    returns: tuple[Array, ...]
    data: tuple[Buffer, ...]
    """Bytes of `returns`, C order, one entry each."""

    def pack(self) -> list[Buffer]:
        head = [_COUNTS.pack(len(self.arenas) + len(self.data), len(self.returns))]
        head += [_ARENA.pack(0, len(part)) for part in (*self.arenas, *self.data)]
        head += [array.pack() for array in self.returns]
        return [b"".join(head), *self.arenas, *self.data]

    @classmethod
    def unpack(cls, payload: memoryview, arenas: tuple[int, ...]) -> Result:
        """Raises `ProtocolError` unless it holds arenas of exactly these lengths and data for every returned value."""
        lengths, returns, at, _ = _unpack_parts(payload)
        if tuple(length for _, length in lengths[: len(arenas)]) != arenas:
            raise ProtocolError("result with other buffers than were sent")
        if len(lengths) != len(arenas) + len(returns):
            raise ProtocolError("result with other parts than it declares")
        parts = [payload[at_ : at_ + length] for _, length, at_ in _placed(lengths, at, len(payload))]
        return cls(tuple(parts[: len(arenas)]), returns, tuple(parts[len(arenas) :]))


def _unpack_parts(payload: memoryview) -> tuple[list[tuple[int, int]], tuple[Array, ...], int, bool]:
    """(arena table, descriptors, where data starts, keep flag)."""
    if len(payload) < _COUNTS.size:
        raise ProtocolError("frame shorter than its counts")
    n_arenas, n_args = _COUNTS.unpack_from(payload)
    keep, n_args = bool(n_args >> 31), n_args & 0x7FFFFFFF
    at = _COUNTS.size + n_arenas * _ARENA.size
    end = at + n_args * _ARRAY.size
    if max(n_arenas, n_args) > MAX_PARTS or end > len(payload):
        raise ProtocolError("frame shorter than its tables")
    arenas = [_ARENA.unpack_from(payload, _COUNTS.size + i * _ARENA.size) for i in range(n_arenas)]
    return arenas, tuple(Array.unpack(payload, at + i * _ARRAY.size) for i in range(n_args)), end, keep


def _placed(parts: list[tuple[int, int]], at: int, total: int) -> list[tuple[int, int, int]]:
    placed = []
    for slot, length in parts:
        placed.append((slot, length, at))
        at += length
    if at != total:
        raise ProtocolError(f"frame of {total} bytes declares {at}")
    return placed


def pack_frame(kind: Kind, nonce: int, parts: list[Buffer]) -> list[Buffer]:
    """Header and parts, ready to be written one after another."""
    views = [memoryview(p).cast("B") for p in parts if len(p)]
    return [HEADER.pack(MAGIC, kind, 0, nonce, sum(len(v) for v in views)), *views]


def coalesced(parts: Sequence[Buffer]) -> list[Buffer]:
    """Neighbouring small parts joined: fewer system calls, and no copy of what is large."""
    joined: list[Buffer] = []
    run: list[Buffer] = []
    for part in parts:
        if len(part) < SMALL:
            run.append(part)
            continue
        joined += [b"".join(run), part] if run else [part]
        run = []
    return [*joined, b"".join(run)] if run else joined


def unpack_header(data: bytes | bytearray) -> tuple[Kind, int, int]:
    """(type, nonce, payload bytes)."""
    magic, kind, flags, nonce, length = HEADER.unpack(data)
    if magic != MAGIC or flags:
        raise ProtocolError("not a frame")
    try:
        return Kind(kind), nonce, length
    except ValueError as error:
        raise ProtocolError(f"frame of unknown type {kind}") from error
