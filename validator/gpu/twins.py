"""What arrays of the host hold, in the gate's own memory on a device: what a worker has is compared with it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from validator.gpu.memory import Memory
from validator.gpu.owned import Owned
from validator.gpu.sending import Sender

__all__ = ["QUAD", "Twin", "Twins"]

QUAD = 16
"""Bytes that are compared at a time."""


@dataclass(frozen=True, slots=True)
class Twin:
    """The same bytes."""

    address: int
    """Of the first; at the same place within 16 bytes as what it is compared with."""
    size: int


class Twins(Owned[Twin]):
    """Of arrays of the host, and of results that were taken."""

    def __init__(self, memory: Memory, sender: Sender) -> None:
        super().__init__(memory)
        self._sender = sender

    def twin(self, value: Any, body: tuple[int, int], source: memoryview) -> Twin:
        """The gate's copy of an array that stands in `source`; sent where there is none."""
        self.coming(value, body, source)
        found = self.known(value, body)
        assert found is not None
        return found

    def coming(self, value: Any, body: tuple[int, int], source: memoryview) -> None:
        """Begin to send an array that stands in `source`, where there is no copy of it."""
        if _fits(self.has(value), body):
            return
        (offset, size), piece = body, self._room(body)
        twin, data = Twin(piece[0] + offset % QUAD, size), np.frombuffer(source, np.uint8)[offset : offset + size]
        self.put(value, twin, piece, self._sender.send((twin.address, data)))

    def known(self, value: Any, body: tuple[int, int]) -> Twin | None:
        """The gate's copy of an array, if it has one that can be compared with that body."""
        return self.there(value) if _fits(self.has(value), body) else None

    def take(self, address: int, body: tuple[int, int], owner: Any) -> None:
        """What stands there, to where nobody else can change it; queued."""
        piece = self._room(body)
        twin = Twin(piece[0] + body[0] % QUAD, body[1])
        self.put(owner, twin, piece)
        self._memory.device.copy(twin.address, address, body[1])

    def _room(self, body: tuple[int, int]) -> tuple[int, int]:
        size = body[1] + QUAD
        return self._memory.get(size), size


def _fits(twin: Twin | None, body: tuple[int, int]) -> bool:
    """Whether it can be compared with that body."""
    return twin is not None and twin.size == body[1] and not (twin.address - body[0]) % QUAD
