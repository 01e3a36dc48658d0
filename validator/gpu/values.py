"""Bytes for a candidate's buffers: true values and the previous step's, nowhere equal where a producer writes.

The same bit patterns serve every floating type, so a contract without element types is enough: each 16-bit half is a
float16 between 1.5 and 1.9 and a bfloat16 between 0.1 and 0.8, each 32-bit word a float32 of that size, each byte a
finite fp8 number below 2. Sums and products keep the difference between the two values in their leading digits.
"""

from __future__ import annotations

import numpy as np

from validator.manifest.contract import Domain, Role, Values

__all__ = ["Pair", "draw_pair", "element_size"]

Pair = tuple[bytes, bytes]
"""The true values and the previous step's values."""

SMALL = 32
"""Integers are below this: valid as positions, lengths and tickets in buffers of the default size."""
PUBLISHED = 1 << 20
"""A flag that is set: beyond any step or count that a poll may compare it with."""

_INTEGER = {"int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1}
_FLOAT = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


def element_size(values: Values) -> int:
    """Bytes of one element; packed four-bit types and fp8 count as one byte, no declared type as four."""
    return (_INTEGER | _FLOAT).get(values.dtype[0], 1) if values.dtype else 4


def draw_pair(role: Role | None, values: Values, size: int, window: int, rng: np.random.Generator) -> Pair:
    """`size` bytes for a buffer of this role, twice: equal but for the first `window` bytes, there nowhere equal."""
    true, previous = _elements(role, values, size, rng)
    previous[window:] = true[window:]
    return true.tobytes(), previous.tobytes()


def _elements(role: Role | None, values: Values, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    integer = bool(values.dtype) and values.dtype[0] in _INTEGER
    if role is Role.FLAG:
        return _integers(np.full(size, PUBLISHED), np.zeros(size), element_size(values), size)
    if role is Role.INDEX or role is Role.WORKSPACE or integer:
        low, high = _range(values.domain)
        if values.domain.values:
            chosen = np.array(values.domain.values, np.int64)
            true, previous = np.full(size, chosen[0]), np.full(size, chosen[-1])
        else:
            half = (high - low + 1) // 2 or 1
            draws = rng.integers(0, half, (2, size))
            # Odd and even positions of the range: different element by element, both inside it.
            true, previous = np.minimum(low + 2 * draws[0] + 1, high), low + 2 * draws[1]
        return _integers(true, previous, element_size(values), size)
    count = -(-size // 2)
    parts = rng.integers(0, 2, (2, count)) << 8 | rng.integers(0, 32, (2, count)) << 1
    halves = (0x3E00 | parts).astype(np.uint16)
    halves[0] |= 1
    return halves[0].view(np.uint8)[:size].copy(), halves[1].view(np.uint8)[:size].copy()


def _range(domain: Domain) -> tuple[int, int]:
    low = int(domain.low) if domain.low is not None else 0
    high = int(domain.high) if domain.high is not None else low + SMALL - 1
    return low, max(low, min(high, low + SMALL - 1))


def _integers(true: np.ndarray, previous: np.ndarray, width: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `size` bytes of both, as little-endian integers of `width` bytes."""
    limit = (1 << (8 * width - 1)) - 1
    count = -(-size // width)
    pair = (np.minimum(a[:count], limit).astype(f"<i{width}").view(np.uint8)[:size].copy() for a in (true, previous))
    first, second = pair
    return first, second
