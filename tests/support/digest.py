"""What `digest` of `shelf.cu` adds up, in Python."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

PRIME = (1 << 61) - 1
BLOCK = 4096
KEY = BLOCK + 16 + 4 * 8
"""Bytes."""


def added(data: bytes, first: int, key: bytes) -> tuple[int, int, int, int]:
    """Of bytes whose first block has this number: the low and the high 32 bits of what each of two numbers grows by."""
    bases = struct.unpack_from("<2Q", key, BLOCK + 16)
    found = []
    for base, start in zip(bases, (0, 16), strict=True):
        number = 0
        for at, digit in enumerate(_digits(data, np.frombuffer(key, np.uint32, BLOCK // 4, start))):
            number = (number + digit * pow(base, first + at, PRIME)) % PRIME
        found += [number & 0xFFFFFFFF, number >> 32]
    return found[0], found[1], found[2], found[3]


def _digits(data: bytes, key: np.ndarray) -> Iterator[int]:
    for start in range(0, len(data), BLOCK):
        words = np.frombuffer(data[start : start + BLOCK].ljust(BLOCK, b"\0"), np.uint32) + key
        pairs = words.astype(np.uint64).reshape(-1, 2)
        yield int((pairs[:, 0] * pairs[:, 1]).sum(dtype=np.uint64))
