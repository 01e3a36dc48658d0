"""What arrays of the host hold, in the gate's own memory on a device: what a worker has is compared with it there."""

from __future__ import annotations

import mmap
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from validator.gpu.driver import Device, DeviceError

__all__ = ["QUAD", "Memory", "Twin", "Twins", "up"]

QUAD = 16
"""Bytes that are compared at a time."""
_SPARE = 2
"""Pieces of memory without a use that are kept: one is asked for again soon."""


class Memory:
    """The gate's own memory on a device: allocated once and used again."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._spare: list[tuple[int, int]] = []

    def get(self, size: int) -> int:
        """Address."""
        found = next((piece for piece in self._spare if piece[1] == size), None)
        if found is None:
            return int(self.device.call("cuMemAlloc", size))
        self._spare.remove(found)
        return found[0]

    def give_back(self, address: int, size: int) -> None:
        self._spare.append((address, size))
        while len(self._spare) > _SPARE:
            self.device.call("cuMemFree", self._spare.pop(0)[0])

    def clear(self) -> None:
        """Nothing spare is kept."""
        while self._spare:
            self.device.call("cuMemFree", self._spare.pop()[0])


@dataclass(frozen=True, slots=True)
class Twin:
    """The bytes of an array that lies on the host, in the gate's own memory."""

    address: int
    """Of the first; at the same place within 16 bytes as what it is compared with."""
    size: int
    piece: tuple[int, int]
    array: weakref.ref[Any]
    sent: Future[None] | None = None
    """It is on its way until then."""


class Twins:
    """Twins by the identity of arrays; they end with them."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self._device = memory, memory.device
        self._twins: dict[int, Twin] = {}
        self._dead: list[Twin] = []
        """Of arrays that are no more: collected where a device may be asked."""

    def __len__(self) -> int:
        return len(self._twins)

    def collect(self) -> None:
        """What belonged to arrays that are no more serves others."""
        while self._dead:
            gone = self._dead.pop()
            if gone.sent is not None:
                gone.sent.result()
            self._memory.give_back(*gone.piece)

    def close(self) -> None:
        """There are none any more."""
        self._sender.shutdown()
        self._dead += self._twins.values()
        self._twins = {}
        self.collect()

    def twin(self, value: Any, body: tuple[int, int], source: memoryview) -> Twin:
        """The gate's copy of an array that stands in `source`; sent where there is none."""
        self.coming(value, body, source)
        found = self.known(value, body)
        assert found is not None
        return found

    def coming(self, value: Any, body: tuple[int, int], source: memoryview) -> None:
        """Begin to send an array that stands in `source`, where there is no copy of it."""
        if self._twin_of(value, body) is not None:
            return
        offset, size = body
        piece = (self._memory.get(size + QUAD), size + QUAD)
        address, data = piece[0] + offset % QUAD, np.frombuffer(source, np.uint8)[offset : offset + size]
        self._keep(value, address, size, piece, self._sender.submit(self._send, address, data))

    def known(self, value: Any, body: tuple[int, int]) -> Twin | None:
        """The gate's copy of an array, if it has one that can be compared with that body."""
        found = self._twin_of(value, body)
        if found is not None and found.sent is not None:
            found.sent.result()
        return found

    def _twin_of(self, value: Any, body: tuple[int, int]) -> Twin | None:
        found = self._twins.get(id(value)) if value is not None else None
        if found is None or found.array() is not value:
            return None
        return found if found.size == body[1] and not (found.address - body[0]) % QUAD else None

    def take(self, address: int, body: tuple[int, int], into: Any) -> None:
        """What stands there, to where nobody else can change it, and from there to the host."""
        piece = (self._memory.get(body[1] + QUAD), body[1] + QUAD)
        twin = self._keep(into, piece[0] + body[0] % QUAD, body[1], piece, None)
        self._device.copy(twin.address, address, body[1])
        self._device.fetch(twin.address, into.reshape(-1).view(np.uint8))

    def alike(self, taken: Any, known: Any) -> None:
        """The twin of one array is the other's from now on."""
        twin = self._twins.pop(id(taken))
        self._keep(known, twin.address, twin.size, twin.piece, None)

    def arrived(self) -> None:
        """Wait until everything that was on its way is there."""
        for twin in list(self._twins.values()):
            if twin.sent is not None:
                twin.sent.result()

    @cached_property
    def _sender(self) -> ThreadPoolExecutor:
        """Sends while the reference is asked."""
        return ThreadPoolExecutor(1, "send")

    @cached_property
    def _stream(self) -> Any:
        """Where it does: nobody else waits for what is sent."""
        return self._device.call("cuStreamCreate", self._device.types.CUstream_flags.CU_STREAM_NON_BLOCKING.value)

    def _keep(self, value: Any, address: int, size: int, piece: tuple[int, int], sent: Future[None] | None) -> Twin:
        def gone(_: object) -> None:
            # Wherever the interpreter happens to be: the device is asked later. Another may have its identity by now.
            if (known := self._twins.get(key)) is not None and known is twin:
                del self._twins[key]
                self._dead.append(twin)

        key = id(value)
        if (before := self._twins.pop(key, None)) is not None:
            self._dead.append(before)
        twin = Twin(address, size, piece, weakref.ref(value, gone), sent)
        self._twins[key] = twin
        return twin

    def _send(self, address: int, data: Any) -> None:
        """From pinned memory, where the driver pins it: that takes less time than sending it as it is."""
        self._device.enter()
        page, at = mmap.PAGESIZE, data.ctypes.data
        start = at // page * page
        pinned = True
        try:
            self._device.call("cuMemHostRegister", start, up(at + len(data) - start, page), 0)
        except DeviceError:
            pinned = False
        self._device.call("cuMemcpyHtoDAsync", address, data, len(data), self._stream)
        self._device.call("cuStreamSynchronize", self._stream)
        if pinned:
            self._device.call("cuMemHostUnregister", start)


def up(length: int, step: int) -> int:
    """At least one step."""
    return -(-max(length, 1) // step) * step
