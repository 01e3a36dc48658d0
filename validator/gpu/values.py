"""Bytes for a candidate's buffers: true values and the previous step's, nowhere equal where a producer writes.

Without declared bounds the same bit patterns serve every floating type, so roles alone are enough: each 16-bit half is
a float16 between 1.5 and 1.9 and a bfloat16 between 0.1 and 0.8, each 32-bit word a float32 of that size, each byte a
finite fp8 number below 2. Sums and products keep the difference between the two values in their leading digits.
"""

from __future__ import annotations

import struct

import numpy as np

from validator.manifest.contract import Domain, Role, Values

__all__ = ["Pair", "draw_pair", "element_size", "is_floating", "scalar_bytes"]

Pair = tuple[bytes, bytes]
"""The true values and the previous step's values."""

SMALL = 32
"""Integers are below this: valid as positions, lengths and tickets in buffers of the default size."""
LARGEST_ORDER = 1 << 20
"""Positions of a permutation; a range may be far larger."""
PUBLISHED = 1 << 20
"""A flag that is set: beyond any step or count that a poll may compare it with."""

_INTEGER = {"int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1}
_FLOAT = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


def element_size(values: Values) -> int:
    """Bytes of one element; packed four-bit types and fp8 count as one byte, no declared type as four."""
    return (_INTEGER | _FLOAT).get(values.dtype[0], 1) if values.dtype else 4


def is_floating(dtype: str | None) -> bool:
    return dtype is not None and dtype.startswith(("float", "bfloat"))


def scalar_bytes(value: float, dtype: str | None, size: int) -> bytes:
    """A number passed by value in `size` bytes; without a type it is what Python says. Raises ValueError."""
    kind = {2: "e", 4: "f", 8: "d"}.get(size)
    if kind and (is_floating(dtype) or (dtype is None and isinstance(value, float))):
        return struct.pack("<f", value)[2:] if dtype == "bfloat16" else struct.pack(f"<{kind}", value)
    if size not in (1, 2, 4, 8):
        raise ValueError(f"takes {size} bytes and is no plain number")
    if not -(1 << 8 * size - 1) <= value < 1 << 8 * size:
        raise ValueError(f"is {value}, too large for {size} bytes")
    return int(value).to_bytes(size, "little", signed=value < 0)


def draw_pair(role: Role | None, values: Values, size: int, window: int, rng: np.random.Generator) -> Pair:
    """`size` bytes for a buffer of this role, twice: equal but for the first `window` bytes, there nowhere equal."""
    true, previous = _elements(role, values, size, rng)
    previous[window:] = true[window:]
    return true.tobytes(), previous.tobytes()


Arrays = tuple[np.ndarray, np.ndarray]


def _elements(role: Role | None, values: Values, size: int, rng: np.random.Generator) -> Arrays:
    """Bytes of the true and the previous values, different in every element."""
    width = element_size(values)
    count = -(-size // width)
    dtype, domain = values.dtype[0] if values.dtype else None, values.domain
    if role is Role.FLAG:
        pair: Arrays = np.full(count, PUBLISHED), np.zeros(count)
    elif role is Role.MAILBOX and values.empty is not None:
        return _moderate(size, rng)[0], np.resize(np.array([values.empty], "<u4").view(np.uint8), size)
    elif role in (Role.INDEX, Role.WORKSPACE) or dtype in _INTEGER:
        pair = _small(domain, count, rng)
    elif dtype in _FLOAT and None not in domain.fixed:
        return _within(*domain.fixed, dtype, size, rng)  # type: ignore[arg-type]
    else:
        return _moderate(size, rng)
    largest = (1 << (8 * width - 1)) - 1
    true, previous = (np.minimum(a, largest).astype(f"<i{width}").view(np.uint8)[:size] for a in pair)
    return true, previous


def _small(domain: Domain, count: int, rng: np.random.Generator) -> Arrays:
    """Integers of the domain; below `SMALL` where it says nothing."""
    if domain.values:
        return np.full(count, domain.values[0]), np.full(count, domain.values[-1])
    least, most = domain.fixed
    low = int(least) if least is not None else 0
    high = int(most) if most is not None else low + SMALL - 1
    if domain.unique:
        # The same order, one further: nothing twice in either, and different element by element.
        order = low + rng.permutation(min(max(high - low + 1, 1), LARGEST_ORDER))
        pair = np.resize(order, count), np.resize(np.roll(order, 1), count)
    else:
        high = min(high, low + SMALL - 1)
        draws = rng.integers(0, max((high - low + 1) // 2, 1), (2, count))
        # Odd and even positions of the range: different element by element, both inside it.
        pair = np.minimum(low + 2 * draws[0] + 1, max(low, high)), low + 2 * draws[1]
    return (np.sort(pair[0]), np.sort(pair[1])) if domain.sorted else pair


def _within(low: float, high: float, dtype: str, size: int, rng: np.random.Generator) -> Arrays:
    """Numbers between declared bounds, both included."""
    count = -(-size // _FLOAT[dtype])
    drawn = rng.uniform(low, high, (2, count))
    if dtype == "bfloat16":
        # The upper half of a float32; rounding towards zero keeps to the bounds.
        words = drawn.astype("<f4").view("<u4") >> 16
        rows = words.astype("<u2")
    else:
        rows = drawn.astype(f"<f{_FLOAT[dtype]}")
    true, previous = (row.view(np.uint8)[:size] for row in rows)
    return true, previous


def _moderate(size: int, rng: np.random.Generator) -> Arrays:
    low_bytes = rng.integers(0, 32, (2, -(-size // 2))) << 1
    true, previous = (
        (high | low).astype("<u2").view(np.uint8)[:size] for high, low in zip((0x3F01, 0x3E00), low_bytes, strict=True)
    )
    return true, previous
