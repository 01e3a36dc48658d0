"""Sends large arrays to a device while something else goes on: on a stream of its own, which nobody else waits for."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any

from validator.gpu.driver import Device, DeviceError

__all__ = ["Sender", "up"]


class Sender:
    """One array after another, by a thread of its own."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def send(self, *several: tuple[int, Any]) -> Future[None]:
        """(address, contiguous bytes) of each; they must stay as they are until then."""
        return self._thread.submit(self._all, several)

    def close(self) -> None:
        self._thread.shutdown()

    @cached_property
    def _thread(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "send")

    @cached_property
    def _stream(self) -> Any:
        return self._device.call("cuStreamCreate", self._device.types.CUstream_flags.CU_STREAM_NON_BLOCKING.value)

    def _all(self, several: Sequence[tuple[int, Any]]) -> None:
        self._device.enter()
        for address, data in several:
            self._one(address, data)

    def _one(self, address: int, data: Any) -> None:
        """From pinned memory, where the driver pins it: that takes less time than sending it as it is."""
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
