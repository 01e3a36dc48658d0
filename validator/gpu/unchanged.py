"""Whether memory on the device still holds what was put there, asked of the device itself."""

from __future__ import annotations

import struct
from ctypes import c_uint32
from functools import cached_property
from pathlib import Path

from validator.gpu.driver import Device, Function, Launch, Parameters

__all__ = ["Unchanged"]

_PTX = Path(__file__).with_name("neighbour.ptx")
_EVERYWHERE = Launch((512, 1, 1), (256, 1, 1))
_QUAD = 16
"""Bytes that are compared at a time."""


class Unchanged:
    """Compares two places. Its kernel is compiled when it is first asked for."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __call__(self, address: int, other: int, size: int) -> bool:
        """Whether both hold the same; both start at multiples of 16 bytes and may be read up to the next one."""
        self._device.upload(self._region, struct.pack("<QQQ", address, other, -(-size // _QUAD)))
        self._device.clear(self._differs, 4)
        self._device.launch(self._compare, _EVERYWHERE, Parameters.of(self._region, c_uint32(1), self._differs))
        return self._device.download(self._differs, 4) == bytes(4)

    @cached_property
    def _compare(self) -> Function:
        (function,) = self._device.functions(_PTX.read_bytes(), "compare")
        return function

    @cached_property
    def _region(self) -> int:
        return self._device.allocate(struct.calcsize("<QQQ"))

    @cached_property
    def _differs(self) -> int:
        return self._device.allocate(4)
