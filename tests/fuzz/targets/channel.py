"""Frames from a worker: a result is what was asked for, or a `ProtocolError`; nothing larger than what came."""

from __future__ import annotations

from collections.abc import Iterator

from validator.run.channel import HEADER, Array, Call, Kind, ProtocolError, Result, pack_frame, unpack_header

MODULES = ("validator.run.channel",)


def seeds() -> Iterator[bytes]:
    views = tuple(Array(1, (2, 3), (12, 4), arena, 0) for arena in range(2))
    for parts in (
        Call(((0, 0, 24), (1, 4096, 24)), views, True, True).pack(),
        Result((Array(1, (2, 3), (12, 4), 0, 24),), (bytes(24),)).pack(),
        Result((Array(1, (2, 3), (12, 4), 0, 24),), (bytes(24),), True).pack(),
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
    for room in (None, memoryview(bytes(24)), memoryview(bytes(512))):
        try:
            result = Result.unpack(payload, room)
        except ProtocolError:
            continue
        assert len(result.data) == len(result.returns)
        assert all(len(part) <= (len(room or b"") if result.in_room else len(payload)) for part in result.data)
        assert all(size >= 0 for array in result.returns for size in array.shape)
        assert b"".join(map(bytes, result.pack())) == b"".join(map(bytes, Result.unpack(payload, room).pack()))
    try:
        call = Call.unpack(payload)
    except ProtocolError:
        return
    assert Call.unpack(memoryview(b"".join(map(bytes, call.pack())))) == call
