"""Frames of the channel: a result is what was asked for, or a `ProtocolError`; nothing larger than what came."""

from __future__ import annotations

from collections.abc import Iterator

from validator.run.channel import HEADER, Array, Call, Kind, ProtocolError, Result, pack_frame, unpack_header

MODULES = ("validator.run.channel",)
_ROOM = memoryview(bytes(range(256)) * 4)


def seeds() -> Iterator[bytes]:
    views = tuple(Array(1, (2, 3), (12, 4), arena, 0) for arena in range(2))
    array = Array(1, (2, 3), (12, 4), 0, 24)
    for parts in (
        Call(((0, 0, 24), (1, 256, 24)), views, True, True, (7, 0)).pack(),
        Result((array,), (bytes(24),)).pack(),
        Result((array, array), (bytes(24), bytes(24)), True).pack(),
        Result((Array(0, (), (), form=4),), (b"",)).pack(),
        Result((), ()).pack(),
    ):
        yield b"".join(map(bytes, pack_frame(Kind.RESULT, 7, parts)))


def one(data: bytes) -> None:
    try:
        _, _, length = unpack_header(data[: HEADER.size].ljust(HEADER.size, b"\0"))
        assert length >= 0
    except ProtocolError:
        pass
    payload = memoryview(data[HEADER.size :])
    for room in (None, _ROOM, _ROOM[:7]):
        try:
            result = Result.unpack(payload, room)
        except ProtocolError:
            continue
        assert len(result.data) == len(result.returns)
        assert all(size >= 0 for array in result.returns for size in array.shape)
        limit = len(payload) if not result.in_room else len(room or b"")
        assert all(len(part) <= limit for part in result.data)
        again = Result.unpack(memoryview(b"".join(map(bytes, result.pack()))), room)
        assert (again.returns, list(map(bytes, again.data))) == (result.returns, list(map(bytes, result.data)))
    try:
        Call.unpack(payload)
    except ProtocolError:
        return
