"""`cvt` to and from formats of at most 8 bits, two to a register: e4m3, e5m2, e2m3, e3m2, e2m1, ue8m0; integer packs.

The formats below e5m2 need a Blackwell GPU; they follow the ISA's text and have no recorded vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from validator.emulate.isa.integers import of_type
from validator.emulate.isa.model import Array, Op, RegType, operation
from validator.emulate.isa.numbers import BF16, F16, F32, canonical
from validator.emulate.isa.words import Unsupported, Words, signed

__all__ = ["pack_conversion", "small_conversion"]


@dataclass(frozen=True, slots=True)
class Small:
    """A format of one byte or less."""

    dtype: Any
    greatest: float
    """The greatest finite number."""
    nan: int
    """Bits that NaN becomes."""
    size: int = 8
    """Bits."""

    @property
    def bits(self) -> int:
        """Of an element in its register."""
        return 4 if self.size == 4 else 8

    @property
    def reg(self) -> RegType:
        """Of two elements."""
        return RegType(2 * self.bits)

    def encode(self, value: Array, relu: bool) -> Array:
        """Numbers of binary32 to bytes, to nearest even, clamped to the finite numbers."""
        bits = np.clip(value, -self.greatest, self.greatest).astype(self.dtype).view(np.uint8)
        if relu:
            bits = np.where(value < 0, np.uint8(0), bits & ~self.sign)
        none = value != value
        return np.where(none, np.uint8(self.nan), bits) if none.any() else bits

    @property
    def sign(self) -> Any:
        """Of a byte that holds one element."""
        return np.uint8(1 << (self.size - 1))

    def joined(self, high: Array, low: Array) -> Array:
        dtype = self.reg.dtype
        return (high.astype(dtype) << dtype.type(self.bits)) | low

    def decode(self, registers: Array) -> tuple[Array, Array]:
        """Low and high element as f16 bits."""
        low = (registers & registers.dtype.type((1 << self.bits) - 1)).astype(np.uint8)
        high = (registers >> registers.dtype.type(self.bits)).astype(np.uint8)
        table = np.arange(256, dtype=np.uint8) & np.uint8((int(self.sign) << 1) - 1)
        halves = canonical(F16, table.view(self.dtype).astype(np.float16).view(np.uint16))
        return halves[low], halves[high]


_SMALL = {
    "e4m3x2": Small(ml_dtypes.float8_e4m3fn, 448.0, 0x7F),
    "e5m2x2": Small(ml_dtypes.float8_e5m2, 57344.0, 0x7F),
    "e2m3x2": Small(ml_dtypes.float6_e2m3fn, 7.5, 0x1F, size=6),
    "e3m2x2": Small(ml_dtypes.float6_e3m2fn, 28.0, 0x1F, size=6),
    "e2m1x2": Small(ml_dtypes.float4_e2m1fn, 6.0, 0x07, size=4),
}


def small_conversion(words: Words) -> Op | None:
    """The conversion, or None where no type is small."""
    if words.flag("ue8m0x2"):
        return _scale(words)
    name = words.maybe(*_SMALL)
    return None if name is None else _small(words, _SMALL[name])


def _small(words: Words, small: Small) -> Op:
    words.take("rn")
    relu, finite = words.flag("relu"), words.flag("satfinite")
    other = words.take("f32", "f16x2")
    words.end()
    if finite and other == "f32":
        return operation(
            (RegType.B32,) * 2,
            small.reg,
            lambda a, b: small.joined(*(small.encode(x.view(np.float32), relu) for x in (a, b))),
        )
    if finite:

        def narrow(a: Array) -> Array:
            parts = np.ascontiguousarray(a).view(np.float16).astype(np.float32)
            return small.joined(small.encode(parts[1::2], relu), small.encode(parts[::2], relu))

        return operation((RegType.B32,), small.reg, narrow)
    if other != "f16x2":
        raise Unsupported

    def widen(registers: Array) -> Array:
        low, high = small.decode(registers)
        if relu:
            low, high = (np.where((x & F16.sign) != 0, np.uint16(0), x) for x in (low, high))
        return (high.astype(np.uint32) << np.uint32(16)) | low

    return operation((small.reg,), RegType.B32, widen)


# --- powers of two ---------------------------------------------------------------------------------------------------


def _scale(words: Words) -> Op:
    """ue8m0: an exponent alone, biased by 127; 0xff is NaN."""
    mode, finite = words.take("rn", "rz", "rp"), words.flag("satfinite")
    other = words.take("f32", "bf16x2")
    words.end()
    if mode == "rn":
        if other != "bf16x2" or finite:
            raise Unsupported
        return operation((RegType.B16,), RegType.B32, _powers)
    up, top = mode == "rp", 0xFE if finite else 0xFF
    if other == "f32":
        return operation(
            (RegType.B32,) * 2,
            RegType.B16,
            lambda a, b: (_exponent(a, up, top) << np.uint16(8)) | _exponent(b, up, top),
        )

    def of_halves(a: Array) -> Array:
        low, high = a << np.uint32(16), a & np.uint32(0xFFFF0000)
        return (_exponent(high, up, top) << np.uint16(8)) | _exponent(low, up, top)

    return operation((RegType.B32,), RegType.B16, of_halves)


def _exponent(bits: Array, up: bool, top: int) -> Array:
    """Exponent of the size of binary32 numbers, rounded down or up, at most `top`."""
    size = bits & ~F32.sign
    exponent = size >> np.uint32(23)
    # 2^-127 is a subnormal with one bit; below it lies only zero.
    rest = np.where(exponent == 0, size > np.uint32(0x400000), (size & np.uint32(0x7FFFFF)) != 0)
    found = np.minimum(exponent + rest if up else exponent, np.uint32(top))
    return np.where(size > np.uint32(F32.infinity), np.uint16(0xFF), found.astype(np.uint16))


def _powers(registers: Array) -> Array:
    """Two exponents as two bf16 numbers."""

    def power(byte: Array) -> Array:
        bits = (byte << np.uint16(7)).astype(np.uint16)
        bits = np.where(byte == 0, np.uint16(0x0040), bits)
        return np.where(byte == 0xFF, np.uint16(BF16.nan), bits)

    low, high = registers & np.uint16(0xFF), registers >> np.uint16(8)
    return (power(high).astype(np.uint32) << np.uint32(16)) | power(low)


# --- integers --------------------------------------------------------------------------------------------------------


def pack_conversion(words: Words) -> Op:
    """`cvt.pack.sat`: two clamped integers into the low bits, the third operand shifted up above them."""
    words.take("sat")
    target = words.take("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2")
    words.take("s32")
    third = words.flag("b32")
    words.end()
    bits = int(target[1:])
    if third != (bits < 16):
        raise Unsupported
    least, greatest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed(target) else (0, (1 << bits) - 1)
    mask = np.uint32((1 << bits) - 1)

    def clamped(value: Array) -> Array:
        return np.clip(of_type(value, "s32"), least, greatest).view(np.uint32) & mask

    def kernel(a: Array, b: Array, *above: Array) -> Array:
        pair = (clamped(a) << np.uint32(bits)) | clamped(b)
        return (above[0] << np.uint32(2 * bits)) | pair if above else pair

    return operation((RegType.B32,) * (2 + third), RegType.B32, kernel)
