"""Keyed digests of what arrays of the host hold, made on a device: whether a worker's memory still holds it is seen by
reading that memory alone, and no copy of it is kept.

The key is drawn when it is first needed. No worker sees it, or a digest: nobody can make other bytes that have one
digest (under 2^-50 a try, `shelf.cu`). What is sent passes through memory of the gate's own: its digest is made there.
"""

from __future__ import annotations

import secrets
import struct
import weakref
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from validator.gpu.driver import Bytes, Function, Launch
from validator.gpu.memory import Memory
from validator.gpu.sending import Sender
from validator.gpu.stretches import AT_A_TIME, PTX, Stretch, parameters_of

__all__ = ["DIGEST", "Digest", "Digests"]

DIGEST = struct.Struct("<4Q")
"""What `digest` of `shelf.cu` adds up, of one stretch."""
_BLOCK = 4096
"""Bytes of one digit, as in `shelf.cu`."""
_PRIME = (1 << 61) - 1
_EVERYWHERE = Launch((264, 1, 1), (256, 1, 1))
_WARPS = 264 * 256 // 32
_THROUGH = 1 << 23
"""Bytes that are sent at a time."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Of an array."""

    numbers: tuple[int, int]
    size: int
    """Bytes."""


class Digests:
    """Of arrays that nobody changes, by their identity."""

    def __init__(self, memory: Memory, sender: Sender) -> None:
        self._memory, self._sender = memory, sender
        self._known: dict[int, tuple[weakref.ref[Any], Future[Digest]]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def send(self, value: Any, data: Bytes, to: int | None) -> Future[Digest]:
        """Begin to send an array's bytes to a place that a worker sees, or nowhere; known when it is there."""
        self.prepare()
        coming = self._sender.submit(lambda: self._through(data, to))
        key = id(value)
        self._known[key] = weakref.ref(value, lambda gone: self._forget(key, gone)), coming
        return coming

    def of(self, value: Any) -> Digest | None:
        """That of an array, as soon as it is known; None: it was never sent."""
        found = self._known.get(id(value)) if value is not None else None
        return found[1].result() if found is not None and found[0]() is value else None

    def arrived(self) -> None:
        """Wait until everything that was on its way is there."""
        for _, coming in list(self._known.values()):
            coming.result()

    def add(self, rows: list[Stretch], into: int, stream: Any = None) -> None:
        """Queues what they add up to, one `DIGEST` after another; zero before. A stretch's `other`: its first block."""
        for start in range(0, len(rows), AT_A_TIME):
            several = rows[start : start + AT_A_TIME]
            parameters = parameters_of(several, self._key, into + DIGEST.size * start)
            self._memory.device.launch(self._function, _EVERYWHERE, parameters, stream)

    @staticmethod
    def said(added: tuple[int, ...], size: int) -> Digest:
        """What was added up, as a digest."""
        first, second = ((added[k] + (added[k + 1] << 32)) % _PRIME for k in (0, 2))
        return Digest((first, second), size)

    def prepare(self) -> None:
        """What is needed of the device is there: whoever sends has entered it."""
        _ = self._function, self._key, self._room, self._sums

    def _through(self, data: Bytes, to: int | None) -> Digest:
        """A piece at a time, so that no worker can change anything before its digest is made."""
        device, stream = self._memory.device, self._sender.stream
        device.clear(self._sums, DIGEST.size, stream)
        with self._sender.pinned(data):
            for start in range(0, len(data), _THROUGH):
                part = data[start : start + _THROUGH]
                device.upload(self._room, part, stream)
                self.add([Stretch(self._room, len(part), start // _BLOCK)], self._sums, stream)
                if to is not None:
                    device.copy(to + start, self._room, len(part), stream)
            added = device.download(self._sums, DIGEST.size, stream)
        return self.said(DIGEST.unpack(added), len(data))

    def _forget(self, key: int, gone: weakref.ref[Any]) -> None:
        if key in self._known and self._known[key][0] is gone:  # another may have its identity by now
            del self._known[key]

    @cached_property
    def _function(self) -> Function:
        return self._memory.device.functions(PTX.read_bytes(), "digest")[0]

    @cached_property
    def _key(self) -> int:
        """Its address."""
        bases = [secrets.randbelow(_PRIME) for _ in range(2)]
        steps = [pow(base, _WARPS, _PRIME) for base in bases]
        key = secrets.token_bytes(_BLOCK + 16) + struct.pack("<4Q", *bases, *steps)
        address = self._memory.get(len(key))
        self._memory.device.upload(address, np.frombuffer(key, np.uint8))
        self._memory.device.synchronize()
        return address

    @cached_property
    def _room(self) -> int:
        return self._memory.get(_THROUGH)

    @cached_property
    def _sums(self) -> int:
        return self._memory.get(DIGEST.size)
