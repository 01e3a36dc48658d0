"""Frames from a worker: a result is what was asked for, or a `ProtocolError`; nothing larger than what came."""

from __future__ import annotations

from collections.abc import Iterator

from validator.run.channel import HEADER, Array, Call, Kind, ProtocolError, Result, pack_frame, unpack_header

MODULES = ("validator.run.channel",)


def seeds() -> Iterator[bytes]:
    views = tuple(Array(1, (2, 3), (12, 4), arena, 0) for arena in range(2))
    for parts in (
        Call(((0, bytes(24)), (1, bytes(24))), views, True).pack(),
        Result((bytes(24),), (Array(1, (2, 3), (12, 4), 0, 24),), (bytes(24),)).pack(),
        Result((bytes(24),), (Array(0, (), (), form=4),), (b"",)).pack(),
        Result((), (), ()).pack(),
    ):
        yield b"".join(map(bytes, pack_frame(Kind.RESULT, 7, parts)))


def one(data: bytes) -> None:
    try:
        _, _, length = unpack_header(data[: HEADER.size].ljust(HEADER.size, b"\0"))
        assert length >= 0
    except ProtocolError:
        pass
    payload = memoryview(data[HEADER.size :])
    for arenas in ((24,), (), (24, 24)):
        try:
            result = Result.unpack(payload, arenas)
        except ProtocolError:
            continue
        assert tuple(map(len, result.arenas)) == arenas
        assert len(result.data) == len(result.returns)
        assert sum(map(len, (*result.arenas, *result.data))) <= len(payload)
        assert all(size >= 0 for array in result.returns for size in array.shape)
        assert b"".join(map(bytes, result.pack())) == b"".join(map(bytes, Result.unpack(payload, arenas).pack()))
    try:
        call = Call.unpack(payload)
    except ProtocolError:
        return
    assert sum(len(part) for _, part in call.arenas) <= len(payload)
