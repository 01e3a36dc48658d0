"""The channel between the gate and a worker: fixed binary frames; the buffers lie in memory that both share (`pool`).

A frame is a header (magic, type, flags, nonce, payload length) and a payload whose every part has a declared length
that is checked against what is there. Nothing is unpickled, evaluated or formatted; text is only ever an error message.
Used on both sides: the worker loads this file by path, so it imports the standard library alone.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

__all__ = [
    "DTYPE_NAMES",
    "EDGE",
    "GIVEN",
    "HEADER",
    "MAX_AXES",
    "Array",
    "Buffer",
    "Call",
    "Frame",
    "Kind",
    "Place",
    "ProtocolError",
    "Result",
    "coalesced",
    "in_room_at",
    "pack_frame",
    "unpack_header",
]

MAGIC = b"VRC1"
HEADER = struct.Struct("<4sHHQQ")
"""magic, frame type, flags, nonce (chosen by the gate, echoed by the worker), payload bytes."""
MAX_AXES = 8
GIVEN = 1 << 30
"""Bit of a slot whose memory the worker cannot write."""
SMALL = 1 << 16
"""Bytes up to which copying a part is cheaper than writing it by itself."""
Buffer: TypeAlias = bytes | bytearray | memoryview
ALIGNED = 64
"""Bytes that results in a room are aligned to."""
EDGE = 4096
"""Bytes at either end of an arena that its number (`Call.numbers`) says nothing about."""
MAX_PARTS = 4096
"""Arguments, arenas or results in one frame."""

DTYPE_NAMES = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn",
    "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "int4", "uint4", "bool",
)  # fmt: skip
"""Element types by code. Append only."""

_KEEP, _ROOM = 1 << 31, 1 << 30
"""Flags beside the number of descriptors."""
_ELSEWHERE = _KEEP
"""Of a result."""
_COUNTS = struct.Struct("<II")
_TIMES = struct.Struct("<I")
_ARENA = struct.Struct("<IQQQ")
_LENGTH = struct.Struct("<Q")
_PLACE = struct.Struct("<IQQQ16s")
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
    COMING = 4
    """gate → worker: the arenas of a `Call` that will follow, to be mapped while nobody waits; never answered."""
    PLACE = 5
    """gate → worker: a `Place`; its descriptor comes with it. Answered where its nonce is not 0."""
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
    PLACED = 22
    """worker → gate: the memory is mapped."""
    BROKEN = 23
    """worker → gate: a kernel failed, and the device refuses whatever this process asks of it from then on; text."""


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

    arenas: tuple[tuple[int, int, int], ...]
    """(slot, where it begins in the memory that both sides share, length), bytes."""
    args: tuple[Array, ...]
    keep: bool = False
    """The worker keeps this call's buffers for a later `RECALL`."""
    room: bool = False
    """The last arena is no argument's: what is returned goes there if it fits."""
    numbers: tuple[int, ...] = ()
    """For each arena, what lies there: arenas of one length and one number hold the same bytes, those at the edges
    (`EDGE`) aside, in whatever calls they are sent. 0, and where nothing is said: anything."""
    times: int = 1
    """So often it is made; what the last one returns is the answer."""

    def pack(self) -> list[Buffer]:
        flags = self.keep * _KEEP | self.room * _ROOM
        head = [_COUNTS.pack(len(self.arenas), len(self.args) | flags)]
        numbers = self.numbers or (0,) * len(self.arenas)
        head += [_ARENA.pack(*arena, number) for arena, number in zip(self.arenas, numbers, strict=True)]
        head += [arg.pack() for arg in self.args]
        return [b"".join([*head, _TIMES.pack(self.times)])]

    @classmethod
    def unpack(cls, payload: memoryview) -> Call:
        arenas, args, at, flags = _unpack_parts(payload, _ARENA)
        if at + _TIMES.size != len(payload):
            raise ProtocolError(f"call of {len(payload)} bytes declares {at}")
        numbers = tuple(number for *_, number in arenas)
        where = tuple((slot, offset, length) for slot, offset, length, _ in arenas)
        return cls(where, args, *_flagged(flags), numbers if any(numbers) else (), *_TIMES.unpack_from(payload, at))


@dataclass(frozen=True, slots=True)
class Place:
    """Memory of a device where a slot's buffer lies from now on, at this length (`elsewhere`)."""

    slot: int
    length: int
    """Bytes of the buffer."""
    size: int
    """Bytes to map; 0: what was mapped for it is gone."""
    start: int
    """Of the buffer in them."""
    device: bytes
    """Identifier, 16 bytes."""

    def pack(self) -> bytes:
        return _PLACE.pack(self.slot, self.length, self.size, self.start, self.device)

    @classmethod
    def unpack(cls, payload: Buffer) -> Place:
        return cls(*_PLACE.unpack(payload))


@dataclass(frozen=True, slots=True)
class Result:
    """What was returned. Arenas are where they were: in the memory that both sides share."""

    returns: tuple[Array, ...]
    data: tuple[Buffer, ...]
    """Bytes of `returns`, C order, one entry each."""
    in_room: bool = False
    """The data lies in the call's room, each entry at a multiple of `ALIGNED`, and not in the frame."""
    elsewhere: bool = False
    """In the room where that lies on a device."""

    def pack(self) -> list[Buffer]:
        flags = self.in_room * _ROOM | self.elsewhere * _ELSEWHERE
        head = [_COUNTS.pack(len(self.data), len(self.returns) | flags)]
        head += [_LENGTH.pack(len(part)) for part in self.data]
        head += [array.pack() for array in self.returns]
        return [b"".join(head), *(() if self.in_room else self.data)]

    @classmethod
    def unpack(cls, payload: memoryview, room: memoryview | None = None) -> Result:
        """Raises `ProtocolError` unless there is data for every returned value, in the frame or in the room."""
        lengths, returns, at, flags = _unpack_parts(payload, _LENGTH)
        elsewhere, in_room = _flagged(flags)
        if len(lengths) != len(returns):
            raise ProtocolError("result with other parts than it declares")
        if not in_room:
            places = _in_turn([length for (length,) in lengths], at, len(payload))
            return cls(returns, tuple(payload[start:end] for start, end in places))
        places = in_room_at([length for (length,) in lengths])
        if room is None or at != len(payload) or any(end > len(room) for _, end in places):
            raise ProtocolError("result outside of the room that was given")
        return cls(returns, tuple(room[start:end] for start, end in places), True, elsewhere)


def in_room_at(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """(start, end) in the room of results of these lengths."""
    places, at = [], 0
    for length in lengths:
        places.append((at, at + length))
        at += -(-length // ALIGNED) * ALIGNED
    return places


def _flagged(flags: int) -> tuple[bool, bool]:
    """(keep, room)."""
    return bool(flags & _KEEP), bool(flags & _ROOM)


def _unpack_parts(payload: memoryview, entry: struct.Struct) -> tuple[list[Any], tuple[Array, ...], int, int]:
    """(table of entries, descriptors, where data starts, flags)."""
    if len(payload) < _COUNTS.size:
        raise ProtocolError("frame shorter than its counts")
    n_parts, n_args = _COUNTS.unpack_from(payload)
    flags, n_args = n_args & (_KEEP | _ROOM), n_args & ~(_KEEP | _ROOM)
    at = _COUNTS.size + n_parts * entry.size
    end = at + n_args * _ARRAY.size
    if max(n_parts, n_args) > MAX_PARTS or end > len(payload):
        raise ProtocolError("frame shorter than its tables")
    parts = [entry.unpack_from(payload, _COUNTS.size + i * entry.size) for i in range(n_parts)]
    return parts, tuple(Array.unpack(payload, at + i * _ARRAY.size) for i in range(n_args)), end, flags


def _in_turn(lengths: Sequence[int], at: int, total: int) -> list[tuple[int, int]]:
    """(start, end) of parts that follow one another up to the end."""
    places = []
    for length in lengths:
        places.append((at, at + length))
        at += length
    if at != total:
        raise ProtocolError(f"frame of {total} bytes declares {at}")
    return places


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
