"""One exchange over the channel: for each question its answer or nothing, in order."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from validator.run.channel import (
    HEADER,
    Buffer,
    Kind,
    ProtocolError,
    Result,
    unpack_header,
)
from validator.run.outcome import Outcome, Reply

__all__ = ["Asked", "Exchange", "unpacked"]

_ENDS = {
    Kind.ERROR: Outcome.ERROR,
    Kind.MEMORY: Outcome.MEMORY,
    Kind.ABSENT: Outcome.ABSENT,
    Kind.BROKEN: Outcome.DEVICE,
}
"""Answers that are no result, and what they mean."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: its nonce and its payload."""

    nonce: int
    parts: list[Buffer]
    room: memoryview | None
    """Where the answer may have put what was returned."""


def unpacked(reply: Reply, room: memoryview | None) -> Reply:
    """The reply with its payload taken apart, if it is what was asked for."""
    if reply.outcome is not Outcome.OK:
        return reply
    try:
        return Reply(Outcome.OK, Result.unpack(memoryview(reply.payload), room))
    except ProtocolError as error:
        return Reply(Outcome.PROTOCOL, detail=str(error))


class Exchange:
    """One frame in for each nonce, in order, over a non-blocking socket."""

    def __init__(self, connection: socket.socket, expected: Kind, nonces: Sequence[int], limit: int) -> None:
        self._socket, self._expected, self._nonces, self._limit = connection, expected, nonces, limit
        self._in = bytearray(HEADER.size)
        self._at = 0
        self._kind: Kind | None = None
        self.replies: list[Reply] = []

    @property
    def due(self) -> int:
        """Replies in all."""
        return len(self._nonces)

    def step(self) -> bool:
        """Take what is there; True once every reply is here. Raises `ProtocolError`, `EOFError`, `OSError`."""
        self._read()
        return len(self.replies) == len(self._nonces)

    def _read(self) -> None:
        while len(self.replies) < len(self._nonces):
            if self._at == len(self._in):
                self._open() if self._kind is None else self._close()
                continue
            try:
                got = self._socket.recv_into(memoryview(self._in)[self._at :])
            except BlockingIOError:
                return
            if not got:
                raise EOFError
            self._at += got

    def _open(self) -> None:
        """The header is here: is it the answer to what was asked?"""
        kind, nonce, length = unpack_header(self._in)
        if nonce != self._nonces[len(self.replies)] or kind not in (self._expected, *_ENDS):
            raise ProtocolError(f"sent {kind.name} where {self._expected.name} was due")
        if length > (self._limit if kind is self._expected else 1 << 16):
            raise ProtocolError(f"declares an answer of {length} bytes")
        self._kind, self._in, self._at = kind, bytearray(length), 0

    def _close(self) -> None:
        """The payload is here too."""
        data = self._in
        if self._kind is self._expected:
            reply = Reply(Outcome.OK, payload=data)
        else:
            assert self._kind is not None
            reply = Reply(_ENDS[self._kind], detail=data.decode("utf-8", "replace"))
        self.replies.append(reply)
        self._kind, self._in, self._at = None, bytearray(HEADER.size), 0
