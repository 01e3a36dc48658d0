"""Sends large arrays to a device while something else goes on: on a stream of its own, which nobody else waits for."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

from validator.gpu.driver import Bytes, Device, DeviceError

__all__ = ["Sender", "up"]

_T = TypeVar("_T")


class Sender:
    """One array after another, by a thread of its own."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def send(self, *several: tuple[int, Bytes]) -> Future[None]:
        """(address, contiguous bytes) of each; they must stay as they are until then."""

        def all_of_them() -> None:
            for address, data in several:
                self._one(address, data)

        return self.submit(all_of_them)

    def submit(self, work: Callable[[], _T]) -> Future[_T]:
        """In its turn, in this thread: `stream` is for it."""

        def entered() -> _T:
            self._device.enter()
            return work()

        return self._thread.submit(entered)

    def close(self) -> None:
        self._thread.shutdown()

    @cached_property
    def stream(self) -> Any:
        return self._device.call("cuStreamCreate", self._device.types.CUstream_flags.CU_STREAM_NON_BLOCKING.value)

    @contextmanager
    def pinned(self, data: Bytes) -> Iterator[None]:
        """Pinned meanwhile, where the driver pins it: to send it takes less time then."""
        page, at = mmap.PAGESIZE, data.ctypes.data
        start = at // page * page
        try:
            self._device.call("cuMemHostRegister", start, up(at + len(data) - start, page), 0)
        except DeviceError:
            yield
            return
        try:
            yield
        finally:
            self._device.call("cuMemHostUnregister", start)

    @cached_property
    def _thread(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "send")

    def _one(self, address: int, data: Bytes) -> None:
        with self.pinned(data):
            self._device.upload(address, data, self.stream)
            self._device.synchronize(self.stream)


def up(length: int, step: int) -> int:
    """At least one step."""
    return -(-max(length, 1) // step) * step
