"""A device that is not there: memory is a dictionary, streams and dependent launches are played out in order.

What a kernel does is a function on that memory; `early` says what it does before its wait. Behind a grid that let its
dependants start, the early half runs first (the delay is longer than the way there), the rest after it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from validator.gpu.driver import Function, Launch, NotHere, Parameters, open_device
from validator.gpu.shelf import Shelf

Step = Callable[["PlayedDevice", Parameters], None]
NEIGHBOURS = ("gate", "restore", "late_producer", "late_publisher", "late_reader", "compare", "successor")
LATE = ("late_producer", "late_publisher", "late_reader")


@dataclass
class PlayedKernel:
    early: Step = lambda device, parameters: None
    late: Step = lambda device, parameters: None


@dataclass
class PlayedDevice:
    kernels: dict[str, PlayedKernel] = field(default_factory=dict)
    memory: dict[int, bytearray] = field(default_factory=dict)
    gates: int = 0
    _open: Any = None
    _running: tuple[str, Parameters] | None = None
    """A grid that has let its dependants start and has not finished."""

    def functions(self, image: bytes, *names: str) -> tuple[Function, ...]:
        return tuple(Function(name, name) for name in names)

    def allocate(self, size: int) -> int:
        address = 0x1000 + 0x100000 * len(self.memory)
        self.memory[address] = bytearray(max(size, 1))
        return address

    def allocate_host(self, size: int) -> int:
        import ctypes

        self._open = (ctypes.c_uint32 * (size // 4))()
        return ctypes.addressof(self._open)

    def at(self, address: int) -> tuple[bytearray, int]:
        """The allocation that holds an address, and how far into it."""
        base = max(b for b in self.memory if b <= address)
        return self.memory[base], address - base

    def read(self, address: int, size: int) -> bytes:
        memory, offset = self.at(address)
        assert offset + size <= len(memory), "out of bounds"
        return bytes(memory[offset : offset + size])

    def write(self, address: int, data: bytes) -> None:
        memory, offset = self.at(address)
        assert offset + len(data) <= len(memory), "out of bounds"
        memory[offset : offset + len(data)] = data

    upload = write

    def copy(self, to: int, source: int, size: int) -> None:
        self._finish()
        self.write(to, self.read(source, size))

    def clear(self, address: int, size: int) -> None:
        self._finish()
        self.write(address, bytes(size))

    def download(self, address: int, size: int) -> bytes:
        self._finish()
        return self.read(address, size)

    def synchronize(self) -> None:
        self._finish()

    def launch(self, function: Function, how: Launch, parameters: Parameters) -> None:
        name = function.handle
        if not how.pdl:
            self._finish()
        if name in LATE:
            self._running = (name, parameters)
        elif name in NEIGHBOURS:
            # The successor's wait covers the candidate, whose own wait alone covers what came before it.
            self._neighbour(name, parameters)
        else:
            kernel = self.kernels[name]
            kernel.early(self, parameters)
            if kernel.late is not PlayedKernel.late:
                self._finish()
                kernel.late(self, parameters)

    def _finish(self) -> None:
        if self._running is not None:
            (name, parameters), self._running = self._running, None
            self._neighbour(name, parameters)

    def _regions(self, table: int, first: int, last: int) -> list[tuple[int, bytes]]:
        rows = [struct.unpack("<QQQ", self.read(table + 24 * i, 24)) for i in range(first, last)]
        return [(live, self.read(other, 16 * quads)) for live, other, quads in rows]

    def _neighbour(self, name: str, parameters: Parameters) -> None:
        if name == "gate":
            self.gates += 1
            return
        if name == "late_producer":
            table, _, count, _ = struct.unpack("<QIIQ", parameters.block)
        elif name == "late_publisher":
            table, _, count, _, done, _ = struct.unpack("<QIIQQI", parameters.block)
            assert self.read(done, 4) == bytes(4), "nobody cleared it"
            self.write(done, struct.pack("<I", 1))
        else:
            table, count = struct.unpack_from("<QI", parameters.block)
        marks = (
            struct.unpack_from("<Q", parameters.block, 16)[0] if name in ("late_reader", "compare", "successor") else 0
        )
        if name == "successor" and self._running is not None:
            self.write(marks + 4 * count, struct.pack("<I", 1))
        for i, (live, other) in enumerate(self._regions(table, 0, count)):
            if not marks:
                self.write(live, other)
            elif self.read(live, len(other)) != other:
                self.write(marks + 4 * i, struct.pack("<I", 1))


@pytest.fixture
def played() -> type[PlayedKernel]:
    return PlayedKernel


@pytest.fixture
def device() -> PlayedDevice:
    return PlayedDevice()


@pytest.fixture(scope="module")
def shelf() -> Any:
    """Of this machine's device."""
    device = open_device(beside=True)
    if isinstance(device, NotHere):
        pytest.skip(str(device))
    found = Shelf(lambda: device)
    yield found
    found.close()
