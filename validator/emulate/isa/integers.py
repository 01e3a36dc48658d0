"""Integer arithmetic: sums, products, quotients, carries, packed 16-bit halves, byte dot products."""

from __future__ import annotations

from typing import Any

import numpy as np

from validator.emulate.isa.model import Array, Kernel, Op, RegType, operation
from validator.emulate.isa.words import Family, Unsupported, Words, signed, width

__all__ = ["INTEGERS", "halves", "integer_abs", "integer_neg", "joined", "of_type", "packed"]

INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_MASK32 = np.uint64(0xFFFFFFFF)


def of_type(bits: Array, kind: str) -> Array:
    """The same bits read as `s32`, `u16` and so on."""
    return bits.view(_SIGNED[bits.itemsize * 8]) if signed(kind) else bits


def _unsigned(values: Array) -> Array:
    return values.view(_UNSIGNED[values.itemsize * 8])


def _widened(bits: Array, kind: str) -> Array:
    """At twice the width, sign- or zero-extended, as unsigned bits."""
    double = bits.itemsize * 16
    return _unsigned(of_type(bits, kind).astype(_SIGNED[double] if signed(kind) else _UNSIGNED[double]))


def halves(bits: Array) -> Array:
    """Both 16-bit halves of 32-bit words on a new last axis, low half first."""
    return np.ascontiguousarray(bits)[..., None].view(np.uint16)


def joined(parts: Array) -> Array:
    """32-bit words of the two 16-bit halves on the last axis."""
    return np.ascontiguousarray(parts).view(np.uint32)[..., 0]


def same_length(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """One-dimensional arrays, contiguous, with immediates repeated."""
    count = max(map(len, arrays))
    return tuple(np.ascontiguousarray(a) if len(a) == count else np.repeat(a, count) for a in arrays)


def packed(kernel: Kernel) -> Kernel:
    """`kernel` over 16-bit elements, applied to both halves of 32-bit words."""
    return lambda *arrays: kernel(*(a.view(np.uint16) for a in same_length(arrays))).view(np.uint32)


# --- sums ------------------------------------------------------------------------------------------------------------


def _saturated(kind: str, wide: Array) -> Array:
    """Clamped to the type's range, from values of twice the width."""
    info = np.iinfo(of_type(np.zeros(1, width(kind).dtype), kind).dtype)
    return _unsigned(np.clip(wide, info.min, info.max).astype(info.dtype))


def _doubled(bits: Array, kind: str) -> Array:
    return _widened(bits, kind).view(_SIGNED[bits.itemsize * 16])


def _sum(words: Words, subtract: bool) -> Op:
    if words.flag("cc"):
        return _with_carry(words, subtract, carry_in=False, carry_out=True)
    saturate = words.flag("sat")
    kind = words.take(*INTEGERS, "u16x2", "s16x2")
    words.end()
    reg = width(kind)
    plain: Kernel = np.subtract if subtract else np.add
    if saturate:
        if kind != "s32":
            raise Unsupported
        return operation((reg, reg), reg, lambda a, b: _saturated(kind, plain(_doubled(a, kind), _doubled(b, kind))))
    return operation((reg, reg), reg, packed(plain) if "x2" in kind else plain, signed=signed(kind))


def add(words: Words) -> Op:
    return _sum(words, subtract=False)


def sub(words: Words) -> Op:
    return _sum(words, subtract=True)


def _with_carry(words: Words, subtract: bool, *, carry_in: bool, carry_out: bool) -> Op:
    kind = words.take("u32", "s32", "u64", "s64")
    words.end()
    reg = width(kind)

    def run(a: Array, b: Array, *carry: Array) -> tuple[Array, ...]:
        total = a - b if subtract else a + b
        out = total > a if subtract else total < a
        if carry:
            before = total
            total = before - carry[0] if subtract else before + carry[0]
            out = out | (total > before if subtract else total < before)
        total = total.astype(reg.dtype, copy=False)
        return (total, out) if carry_out else (total,)

    flags = (RegType.P,)
    return Op((reg, reg) + flags * carry_in, (reg,) + flags * carry_out, run, carry_in=carry_in, carry_out=carry_out)


def addc(words: Words) -> Op:
    return _with_carry(words, False, carry_in=True, carry_out=words.flag("cc"))


def subc(words: Words) -> Op:
    return _with_carry(words, True, carry_in=True, carry_out=words.flag("cc"))


# --- products --------------------------------------------------------------------------------------------------------


def _high64(a: Array, b: Array) -> Array:
    """Upper 64 bits of the unsigned product."""
    half = np.uint64(32)
    a0, a1, b0, b1 = a & _MASK32, a >> half, b & _MASK32, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    other = a0 * b1 + (middle & _MASK32)
    return a1 * b1 + (middle >> half) + (other >> half)


def _high64_signed(a: Array, b: Array) -> Array:
    top = np.uint64(63)
    return _high64(a, b) - (a >> top) * b - (b >> top) * a


def _high(kind: str) -> Kernel:
    if kind in ("u64", "s64"):
        return _high64_signed if signed(kind) else _high64
    bits = width(kind).bits
    dtype = width(kind).dtype

    def high(a: Array, b: Array) -> Array:
        return ((_widened(a, kind) * _widened(b, kind)) >> bits).astype(dtype)

    return high


def _product(part: str, kind: str) -> tuple[RegType, Kernel]:
    """Register type of the result and its semantics."""
    reg = width(kind)
    if part == "lo":
        return reg, np.multiply
    if part == "hi":
        return reg, _high(kind)
    if reg is RegType.B64:
        raise Unsupported
    wide = RegType(reg.bits * 2)
    dtype = _SIGNED[wide.bits] if signed(kind) else _UNSIGNED[wide.bits]
    return wide, lambda a, b: np.multiply(of_type(a, kind), of_type(b, kind), dtype=dtype).view(wide.dtype)


def mul(words: Words) -> Op:
    part, kind = words.take("lo", "hi", "wide"), words.take(*INTEGERS)
    words.end()
    out, kernel = _product(part, kind)
    reg = width(kind)
    return operation((reg, reg), out, kernel, signed=signed(kind))


def mad(words: Words) -> Op:
    part, kind = words.take("lo", "hi", "wide"), words.take(*INTEGERS)
    if words.flag("cc"):
        return _mad_carry(words, part, kind, carry_in=False, carry_out=True)
    saturate = words.flag("sat")
    words.end()
    out, product = _product(part, kind)
    reg = width(kind)
    if saturate:
        if (part, kind) != ("hi", "s32"):
            raise Unsupported
        return operation(
            (reg, reg, out), out, lambda a, b, c: _saturated(kind, _doubled(product(a, b), kind) + _doubled(c, kind))
        )

    def kernel(a: Array, b: Array, c: Array) -> Array:
        return product(a, b) + c

    return operation((reg, reg, out), out, kernel, signed=signed(kind))


def _mad_carry(words: Words, part: str, kind: str, *, carry_in: bool, carry_out: bool) -> Op:
    if part == "wide" or kind in ("u16", "s16"):
        raise Unsupported
    words.end()
    reg, product = _product(part, kind)
    sums = _with_carry(Words((kind,)), False, carry_in=carry_in, carry_out=carry_out)
    return Op(
        (reg, *sums.inputs),
        sums.outputs,
        lambda a, b, c, *carry: sums.run(product(a, b), c, *carry),
        carry_in=carry_in,
        carry_out=carry_out,
    )


def madc(words: Words) -> Op:
    carry_out = words.flag("cc")
    return _mad_carry(words, words.take("lo", "hi"), words.take(*INTEGERS), carry_in=True, carry_out=carry_out)


def _low24(bits: Array, kind: str) -> Array:
    """The low 24 bits, sign- or zero-extended to 64."""
    shifted = of_type(bits << np.uint32(8), kind)
    extended = shifted >> shifted.dtype.type(8)
    return extended.astype(np.int64 if signed(kind) else np.uint64)


def _product24(part: str, kind: str) -> Kernel:
    def kernel(a: Array, b: Array) -> Array:
        product = _low24(a, kind) * _low24(b, kind)
        return (product >> 16 if part == "hi" else product).astype(np.uint32)

    return kernel


def mul24(words: Words) -> Op:
    part, kind = words.take("lo", "hi"), words.take("u32", "s32")
    words.end()
    return operation((RegType.B32,) * 2, RegType.B32, _product24(part, kind))


def mad24(words: Words) -> Op:
    part, kind, saturate = words.take("lo", "hi"), words.take("u32", "s32"), words.flag("sat")
    words.end()
    product = _product24(part, kind)
    if saturate:
        if (part, kind) != ("hi", "s32"):
            raise Unsupported
        return operation(
            (RegType.B32,) * 3,
            RegType.B32,
            lambda a, b, c: _saturated(kind, _doubled(product(a, b), kind) + _doubled(c, kind)),
        )
    return operation((RegType.B32,) * 3, RegType.B32, lambda a, b, c: product(a, b) + c)


# --- quotients and differences ---------------------------------------------------------------------------------------


def _magnitude(bits: Array, kind: str) -> Array:
    return _unsigned(np.abs(of_type(bits, kind))) if signed(kind) else bits


def _negated_where(condition: Array, bits: Array) -> Array:
    return np.where(condition, -bits, bits)


def _quotient(kind: str) -> Kernel:
    """Truncated; all ones for a zero divisor, which the ISA leaves open."""

    def unsigned(a: Array, b: Array) -> Array:
        return np.where(b == 0, b.dtype.type(-1 & (2 ** (b.itemsize * 8) - 1)), a // np.maximum(b, b.dtype.type(1)))

    def both(a: Array, b: Array) -> Array:
        negative = (of_type(a, kind) < 0) ^ (of_type(b, kind) < 0)
        magnitude = unsigned(_magnitude(a, kind), _magnitude(b, kind))
        return np.where(b == 0, magnitude, _negated_where(negative, magnitude))

    return both if signed(kind) else unsigned


def _remainder(kind: str) -> Kernel:
    """With the dividend's sign; the dividend for a zero divisor, which the ISA leaves open."""

    def kernel(a: Array, b: Array) -> Array:
        x, y = _magnitude(a, kind), _magnitude(b, kind)
        rest = np.where(y == 0, x, x % np.maximum(y, y.dtype.type(1)))
        return _negated_where(of_type(a, kind) < 0, rest) if signed(kind) else rest

    return kernel


def div(words: Words) -> Op:
    kind = words.take(*INTEGERS)
    words.end()
    return operation((width(kind),) * 2, width(kind), _quotient(kind), signed=signed(kind))


def rem(words: Words) -> Op:
    kind = words.take(*INTEGERS)
    words.end()
    return operation((width(kind),) * 2, width(kind), _remainder(kind), signed=signed(kind))


def sad(words: Words) -> Op:
    kind = words.take(*INTEGERS)
    words.end()

    def kernel(a: Array, b: Array, c: Array) -> Array:
        less = of_type(a, kind) < of_type(b, kind)
        return c + np.where(less, b - a, a - b)

    return operation((width(kind),) * 3, width(kind), kernel, signed=signed(kind))


def integer_abs(words: Words) -> Op:
    kind = words.take("s16", "s32", "s64")
    words.end()
    return operation((width(kind),), width(kind), lambda a: _magnitude(a, kind), signed=True)


def integer_neg(words: Words) -> Op:
    kind = words.take("s16", "s32", "s64")
    words.end()
    return operation((width(kind),), width(kind), np.negative, signed=True)


# --- least and greatest ----------------------------------------------------------------------------------------------


def least(words: Words) -> Op:
    return _extreme(words, np.minimum)


def greatest(words: Words) -> Op:
    return _extreme(words, np.maximum)


def _extreme(words: Words, choose: Any) -> Op:
    relu = words.flag("relu")
    kind = words.take(*INTEGERS, "u16x2", "s16x2")
    words.end()
    if relu and not signed(kind):
        raise Unsupported

    def kernel(a: Array, b: Array) -> Array:
        chosen = choose(of_type(a, kind), of_type(b, kind))
        return _unsigned(np.maximum(chosen, chosen.dtype.type(0)) if relu else chosen)

    reg = width(kind)
    return operation((reg, reg), reg, packed(kernel) if "x2" in kind else kernel, signed=signed(kind))


# --- dot products ----------------------------------------------------------------------------------------------------


def _parts(bits: Array, dtype: type, kind: str) -> Array:
    """Bytes or halves of 32-bit words on a new last axis."""
    return of_type(np.ascontiguousarray(bits)[..., None].view(dtype), kind)


def _dot(left: Array, right: Array, addend: Array) -> Array:
    """The products along the last axis and an addend, summed in 32 bits that wrap."""
    total = addend.view(np.int32)
    for place in range(left.shape[-1]):
        total = total + np.multiply(left[..., place], right[..., place], dtype=np.int32)
    return total.view(np.uint32)


def dp4a(words: Words) -> Op:
    left, right = words.take("u32", "s32"), words.take("u32", "s32")
    words.end()
    return operation(
        (RegType.B32,) * 3,
        RegType.B32,
        lambda a, b, c: _dot(_parts(a, np.uint8, left), _parts(b, np.uint8, right), c),
    )


def dp2a(words: Words) -> Op:
    left, right = words.take("u32", "s32"), words.take("u32", "s32")
    start = 0 if words.take("lo", "hi") == "lo" else 2
    words.end()

    def kernel(a: Array, b: Array, c: Array) -> Array:
        return _dot(_parts(a, np.uint16, left), _parts(b, np.uint8, right)[..., start : start + 2], c)

    return operation((RegType.B32,) * 3, RegType.B32, kernel)


FAMILY: Family = {
    "add": add,
    "sub": sub,
    "addc": addc,
    "subc": subc,
    "mul": mul,
    "mad": mad,
    "madc": madc,
    "mul24": mul24,
    "mad24": mad24,
    "div": div,
    "rem": rem,
    "sad": sad,
    "abs": integer_abs,
    "neg": integer_neg,
    "min": least,
    "max": greatest,
    "dp4a": dp4a,
    "dp2a": dp2a,
}
