"""In a worker: memory of a device that the gate has made, mapped by its descriptor.

Loaded by path; imports the standard library alone. Nothing is mapped on both sides of a region.
"""

from __future__ import annotations

import ctypes
import os

__all__ = ["Imported", "NotShared"]

_PAGE = 2 << 20
"""Bytes of a page of device memory; what maps it is a multiple."""
_READ_AND_WRITE = 3


class NotShared(Exception):
    """This machine does not let a worker map it."""


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class Imported:
    """Regions by address. Device 0 is the gate's device, or nothing is mapped."""

    def __init__(self) -> None:
        try:
            self._driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NotShared(f"no CUDA driver ({error})") from None
        self._sizes: dict[int, int] = {}
        self._call("cuInit", 0)

    def map(self, descriptor: int, size: int, device: bytes) -> int:
        """Address of `size` bytes of the device with this identifier. Raises `NotShared`. The descriptor is closed."""
        u64, length = ctypes.c_uint64, ctypes.c_size_t
        handle, reserved = u64(), u64()
        try:
            found = ctypes.create_string_buffer(16)
            self._call("cuDeviceGetUuid_v2", found, 0)
            if found.raw != device:
                raise NotShared("the gate's device is another one")
            self._call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor), 1)
        finally:
            os.close(descriptor)
        try:
            whole = length(size + 2 * _PAGE)
            self._call("cuMemAddressReserve", ctypes.byref(reserved), whole, length(0), u64(0), u64(0))
            address = reserved.value + _PAGE
            self._call("cuMemMap", u64(address), length(size), length(0), handle, u64(0))
            access = _Access(_Location(1, 0), _READ_AND_WRITE)
            self._call("cuMemSetAccess", u64(address), length(size), ctypes.byref(access), length(1))
        finally:
            self._call("cuMemRelease", handle)
        self._sizes[address] = size
        return address

    def unmap(self, address: int) -> None:
        """Nobody asks for it any more. Raises `NotShared`."""
        u64, length = ctypes.c_uint64, ctypes.c_size_t
        size = self._sizes.pop(address)
        self._driver.cuCtxSynchronize()
        self._call("cuMemUnmap", u64(address), length(size))
        self._call("cuMemAddressFree", u64(address - _PAGE), length(size + 2 * _PAGE))

    def _call(self, name: str, *args: object) -> None:
        error = getattr(self._driver, name)(*args)
        if error:
            raise NotShared(f"{name} failed with {error}")
