"""Bytes on a device and what should stand there, as the kernels of `shelf.cu` take them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from validator.gpu.driver import Parameters

__all__ = ["AT_A_TIME", "PTX", "QUAD", "Stretch", "parameters_of"]

PTX = Path(__file__).with_name("shelf.ptx")
QUAD = 16
"""Bytes that are compared at a time."""
AT_A_TIME = 16
"""Stretches of one launch, as in `shelf.cu`."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes on the device and what should stand there: those at `other`, or a pattern of 16 bytes by address."""

    at: int
    size: int
    other: int = 0
    pattern: bytes = bytes(QUAD)

    @property
    def packed(self) -> bytes:
        return struct.pack("<QQQ8x", self.at, self.other, self.size) + self.pattern


_STRETCH = len(Stretch(0, 0).packed)


def parameters_of(rows: Sequence[Stretch], *addresses: int) -> Parameters:
    """The block of a kernel that takes stretches, how many they are, and what lies at these addresses."""
    end = AT_A_TIME * _STRETCH
    block = b"".join(row.packed for row in rows).ljust(end, b"\0") + struct.pack("<Ixxxx", len(rows))
    block += struct.pack(f"<{len(addresses)}Q", *addresses)
    return Parameters(block, (0, end, *(end + 8 * (1 + k) for k in range(len(addresses)))))
