"""Floating-point registers as numbers and back: subnormals, NaN, saturation, rounding to fewer bits.

Every format narrower than binary64 is rounded from a binary64 value that is exact or *rounded to odd* (the last bit is
set when anything was lost). Rounding such a value again to at most 51 bits is rounding once (Boldo and Melquiond 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from validator.emulate.isa.model import Array, Kernel, RegType

__all__ = [
    "BF16",
    "F16",
    "F32",
    "F64",
    "FORMATS",
    "LIFT",
    "MODES",
    "Format",
    "canonical",
    "directed",
    "flushed",
    "fused_sum",
    "odd_sum",
    "rounded",
    "saturated",
    "still_normal",
    "to_odd32",
]

MODES = ("rn", "rz", "rm", "rp")
"""To nearest even, to zero, down, up."""


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format in its register."""

    reg: RegType
    nan: int
    """The one NaN that operations produce."""
    infinity: int
    smallest_normal: int
    decode: Kernel
    """Register bits to numbers of `carrier`, exactly."""
    encode: Kernel
    """Numbers of `carrier`, or binary64 exact or rounded to odd, to bits, to nearest even. NaN stays some NaN."""
    carrier: Any
    """numpy type in which single operations are computed."""

    @property
    def sign(self) -> Any:
        return self.reg.dtype.type(1 << (self.reg.bits - 1))

    @property
    def precision(self) -> int:
        """Bits of a significand, the hidden one included."""
        return self.smallest_normal.bit_length()

    @property
    def least(self) -> float:
        """The smallest normal number."""
        return float(self.decode(np.array([self.smallest_normal], self.reg.dtype))[0])

    @property
    def finite(self) -> int:
        """Bits of the greatest finite number."""
        return self.infinity - 1


def to_odd32(value: Array) -> Array:
    """Binary64 to binary32, rounded to odd; binary32 passes."""
    if value.dtype == np.float32:
        return value
    near = value.astype(np.float32)
    lost = (near != value) & (value == value)
    if not lost.any():
        return near
    bits = near.view(np.uint32)
    toward_zero = bits - (np.abs(near) > np.abs(value))
    return np.where(lost, toward_zero | np.uint32(1), bits).astype(np.uint32).view(np.float32)


def _encode_bf16(value: Array) -> Array:
    """By way of binary32: rounding twice differs only half way between two bf16 numbers."""
    near = value.astype(np.float32, copy=False)
    bits = near.view(np.uint32)
    if value.dtype != np.float32:
        doubtful = (bits & np.uint32(0xFFFF)) == np.uint32(0x8000)
        if doubtful.any():
            bits[doubtful] = to_odd32(value[doubtful]).view(np.uint32)
    upper = bits >> np.uint32(16)
    upper &= np.uint32(1)
    upper += np.uint32(0x7FFF)
    upper += bits
    upper >>= np.uint32(16)
    special = near != near
    if special.any():
        upper[special] = 0x7FFF
    return upper.astype(np.uint16)


def _decode_bf16(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


F16 = Format(
    RegType.B16,
    0x7FFF,
    0x7C00,
    0x0400,
    lambda bits: bits.view(np.float16).astype(np.float32),
    lambda value: value.astype(np.float16).view(np.uint16),
    np.float32,
)
BF16 = Format(RegType.B16, 0x7FFF, 0x7F80, 0x0080, _decode_bf16, _encode_bf16, np.float32)
F32 = Format(
    RegType.B32,
    0x7FFFFFFF,
    0x7F800000,
    0x00800000,
    lambda bits: bits.view(np.float32),
    lambda value: value.astype(np.float32, copy=False).view(np.uint32),
    np.float32,
)
F64 = Format(
    RegType.B64,
    0x7FFFFFFFFFFFFFFF,
    0x7FF0000000000000,
    0x0010000000000000,
    lambda bits: bits.view(np.float64),
    lambda value: value.view(np.uint64),
    np.float64,
)
LIFT = np.float32(2.0**64)
"""Takes results near the smallest normal number to where binary32 has all its bits."""
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}


def canonical(form: Format, bits: Array) -> Array:
    """Every NaN replaced by the one that operations produce. Writes to `bits` when there is one."""
    number = form.decode(bits) if form.reg is not RegType.B16 else None
    if number is None:
        special = (bits & ~form.sign) > form.reg.dtype.type(form.infinity)
    else:
        special = number != number
    if special.any():
        bits[special] = form.nan
    return bits


def flushed(bits: Array) -> Array:
    """Binary32 bits with subnormals replaced by zeros of their sign."""
    small = np.abs(bits.view(np.float32)) < np.finfo(np.float32).smallest_normal
    if small.any():
        return np.where(small, bits & np.uint32(0x80000000), bits)
    return bits


def still_normal(bits: Array, lifted: Array) -> Array:
    """The smallest normal number `bits`, or zero where the same result times LIFT says that it is below."""
    below = np.abs(lifted.view(np.float32)) < np.finfo(np.float32).smallest_normal * LIFT
    return np.where(below, bits & F32.sign, bits)


def saturated(value: Array) -> Array:
    """Clamped to [0, 1]; NaN and negative zero give zero."""
    zero, one = value.dtype.type(0), value.dtype.type(1)
    clamped: Array = np.fmin(np.fmax(value, zero), one) + zero
    return clamped


def odd_sum(a: Array, b: Array) -> Array:
    """Sum of two binary64 arrays, rounded to odd. Exponents must stay clear of overflow and of 2^-1022."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    # NaN (from infinities) compares false.
    fix = (np.abs(error) > 0) & ((total.view(np.uint64) & np.uint64(1)) == 0)
    if not fix.any():
        return total
    outward = (error > 0) == (total > 0)
    step = np.where(outward, np.int64(1), np.int64(-1))
    return np.where(fix, (total.view(np.int64) + step).view(np.float64), total)


def fused_sum(form: Format, product: Array, addend: Array) -> Array:
    """Sum of two binary64 arrays that rounds to `form` as the exact sum would.

    Rounding to binary64 and then to fewer bits differs from rounding once only where the first lands half way between
    two numbers of the format, or where the result is subnormal and the format holds fewer bits: those are rounded to
    odd instead.
    """
    total: Array = np.add(product, addend, dtype=np.float64)
    below = 53 - form.precision
    again = (total.view(np.uint64) & np.uint64((1 << below) - 1)) == np.uint64(1 << (below - 1))
    small = np.abs(total) < form.least
    if small.any():
        again |= small & (total != 0)
    if again.any():
        shape = total.shape
        left, right = np.broadcast_to(product, shape)[again], np.broadcast_to(addend, shape)[again]
        total[again] = odd_sum(left.astype(np.float64), right.astype(np.float64))
    return total


def directed(form: Format, bits: Array, above: Array, below: Array, mode: str) -> Array:
    """The nearest value `bits` moved to where `mode` wants it.

    `above` marks values greater than the exact result, `below` smaller ones. An infinity is above every finite number.
    """
    if mode == "rn":
        return bits
    negative = (bits & form.sign) != 0
    one = form.reg.dtype.type(1)
    shrink = above & ~negative if mode in ("rm", "rz") else np.zeros_like(above)
    grow = above & negative if mode == "rm" else np.zeros_like(above)
    if mode in ("rp", "rz"):
        shrink = shrink | (below & negative)
    if mode == "rp":
        grow = grow | (below & ~negative)
    return bits - shrink * one + grow * one


def rounded(form: Format, value: Array, mode: str) -> Array:
    """Binary64 values, exact or rounded to odd, as bits of a narrower format; NaN is canonical."""
    bits = form.encode(value)
    if mode != "rn":
        near = form.decode(bits)
        bits = directed(form, bits, near > value, near < value, mode)
    return canonical(form, bits)
