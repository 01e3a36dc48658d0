"""The gate's side of the channel: whatever a worker writes, in whatever pieces, ends in replies or a named error."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from validator.run.channel import Array, Kind, ProtocolError, Result, pack_frame
from validator.run.exchange import Exchange, unpacked
from validator.run.outcome import Outcome, Reply

MODULES = ("validator.run.exchange", "validator.run.channel")
_NONCES = (7, 8)
_SAID = (Outcome.ERROR, Outcome.MEMORY, Outcome.ABSENT, Outcome.DEVICE)
_ROOM = memoryview(bytes(64))


def seeds() -> Iterator[bytes]:
    result = Result((Array(1, (1,), (4,), 0, 4),), (bytes(4),)).pack()
    good = [b"".join(map(bytes, pack_frame(Kind.RESULT, nonce, result))) for nonce in _NONCES]
    error = b"".join(map(bytes, pack_frame(Kind.ERROR, 7, [b"ValueError: \x1b[2J\xff"])))
    memory = b"".join(map(bytes, pack_frame(Kind.MEMORY, 8, [b""])))
    broken = b"".join(map(bytes, pack_frame(Kind.BROKEN, 8, [b"DeviceBroken: an illegal memory access"])))
    yield b"\x20" + good[0] + broken
    yield from (b"\x05" + good[0] + good[1], b"\x80" + error + good[1], b"\x01" + good[0] + memory, b"\x40" + good[1])


def one(data: bytes) -> None:
    """The first byte says how large the pieces are."""
    piece = (data[0] if data else 0) + 1
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        exchange = Exchange(ours, Kind.RESULT, _NONCES, 1 << 16)
        rest, done = data[1 : 1 + (1 << 14)], False
        try:
            while not done and rest:
                theirs.sendall(rest[:piece])
                rest = rest[piece:]
                done = exchange.step()
            theirs.shutdown(socket.SHUT_WR)
            for _ in range(4):
                done = done or exchange.step()
        except (ProtocolError, EOFError):
            return
        assert done
        assert len(exchange.replies) == len(_NONCES)
        for reply in exchange.replies:
            judged = unpacked(reply, _ROOM)
            assert isinstance(judged, Reply)
            assert (judged.result is not None) == (judged.outcome is Outcome.OK)
            assert judged.outcome in (Outcome.OK, Outcome.PROTOCOL, *_SAID)
