"""What torch's adapter keeps on a device: copies of arenas, arenas that the gate has there, what they held before."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

import torch

__all__ = ["Contents", "Copy", "There", "bytes_at", "in_words"]

_LARGE = 1 << 20
"""Bytes from which an arena is compared where it lies; smaller ones are sooner brought than compared there."""


class Contents:
    """What arenas held, on the device, by the gate's numbers."""

    def __init__(self) -> None:
        self._held: dict[int, Any] = {}
        self.used: set[int] = set()
        """Numbers of the running call."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(map(len, self._held.values()))

    def of(self, number: int, host: Any, edge: int) -> Any:
        """What lies in an arena: its ends alone come from there where the rest has been here before."""
        held = self._held.pop(number, None) if number else None
        if held is None or len(held) != len(host):
            held = torch.empty(len(host), dtype=torch.uint8, device="cuda")
            held.copy_(host)
        else:
            for part in (slice(None, edge), slice(-edge, None)):
                held[part].copy_(host[part])
        if number:
            self._held[number] = held
            self.used.add(number)
        return held

    def drop(self) -> int:
        """The one that nobody has asked for the longest time, of those that the running call does not need; its bytes,
        0 where there is none."""
        oldest = next((number for number in self._held if number not in self.used), None)
        return 0 if oldest is None else len(self._held.pop(oldest))


class Copy:
    """An arena and its copy on the device, as bytes."""

    def __init__(self, host: Any) -> None:
        self.host = host
        self.device = torch.empty(len(host), dtype=torch.uint8, device="cuda")
        self.written = False
        """By the last call that used it."""
        self._pinned = _Pinned(host) if len(host) >= _LARGE else None

    @property
    def size(self) -> int:
        """Bytes on the device."""
        return len(self.device)

    def send(self, host: Any, contents: Contents, number: int = 0, edge: int = 0) -> Any:
        """The values; what they are compared with afterwards, on the device if there are many of them."""
        self.host = host
        before = host if len(host) < _LARGE else contents.of(number, host, edge)
        self.device.copy_(before)
        return before

    def bring(self, before: Any) -> None:
        """Back into the arena, if anything is not as it was before."""
        now = self.device if before.is_cuda else self.device.cpu()
        self.written = not _same_bytes(now, before)
        if self.written:
            bytes_ = self.host.numpy()
            bytes_[0] = bytes_[0]  # a copy from a device may fail in another way where nobody may write
            self.host.copy_(now)


class There:
    """An arena that the gate has on the device: it lays it, and looks at it, there."""

    written = False

    size = 0
    """Bytes of its own."""

    def __init__(self, address: int, size: int) -> None:
        self.device = bytes_at(address, size)

    def bring(self, before: Any) -> None:
        """Nothing: nobody looks at the host's memory."""


def bytes_at(address: int, size: int) -> Any:
    """Memory that somebody else keeps, as bytes."""
    what = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3, "strides": None}
    return torch.as_tensor(type("Memory", (), {"__cuda_array_interface__": what})(), device="cuda")


def in_words(arena: Any) -> list[Any]:
    """The same bytes, most of them eight at a time."""
    words = len(arena) // 8 * 8
    return [arena[:words].view(torch.int64), arena[words:]]


class _Pinned:
    """Memory that a device reads and writes by itself, at several times the speed, for as long as this lives.

    Where the driver refuses (memory that only the gate can write, a limit), it is memory like any other.
    """

    def __init__(self, host: Any) -> None:
        self._host = host  # nothing else may be mapped there before it is let go of
        page = os.sysconf("SC_PAGESIZE")
        self._start = host.data_ptr() // page * page
        size = -(-(host.data_ptr() + len(host) - self._start) // page) * page
        self._driver = _driver()
        # Not through the runtime, which would hand a refusal to whatever is launched next.
        self._refused = self._driver is None or self._driver.cuMemHostRegister_v2(self._start, ctypes.c_size_t(size), 0)

    def __del__(self) -> None:
        if self._refused == 0:
            self._driver.cuMemHostUnregister(self._start)


@cache
def _driver() -> Any:
    """CUDA's driver; None where there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    driver.cuMemHostRegister_v2.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint)
    driver.cuMemHostUnregister.argtypes = (ctypes.c_void_p,)
    return driver


def _same_bytes(now: Any, before: Any) -> bool:
    """Whether both, on one device, hold the same bytes."""
    return all(torch.equal(*parts) for parts in zip(in_words(now), in_words(before), strict=True))
