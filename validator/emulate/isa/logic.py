"""Bits: logic, shifts, fields, counts, permutations, moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from validator.emulate.isa.integers import of_type
from validator.emulate.isa.model import Array, Kernel, Op, RegType, operation
from validator.emulate.isa.words import Family, Unsupported, Words, signed, width

__all__ = ["FAMILY"]

_B32, _B64 = RegType.B32, RegType.B64
_COUNT = np.uint32(0xFF)
"""Positions and lengths of fields are read from the low byte."""


def _last(value: Array) -> int:
    """An operand that must be an immediate."""
    return int(value.reshape(-1)[0])


# --- logic -----------------------------------------------------------------------------------------------------------


def _binary(kernel: Kernel) -> Callable[[Words], Op]:
    def build(words: Words) -> Op:
        reg = width(words.take("pred", "b16", "b32", "b64"))
        words.end()
        return operation((reg, reg), reg, kernel)

    return build


def invert(words: Words) -> Op:
    reg = width(words.take("pred", "b16", "b32", "b64"))
    words.end()
    return operation((reg,), reg, np.invert)


def cnot(words: Words) -> Op:
    reg = width(words.take("b16", "b32", "b64"))
    words.end()
    return operation((reg,), reg, lambda a: (a == 0).astype(reg.dtype))


_TWO: tuple[Kernel, ...] = (
    lambda b, c: np.zeros_like(b),
    lambda b, c: ~(b | c),
    lambda b, c: ~b & c,
    lambda b, c: ~b,
    lambda b, c: b & ~c,
    lambda b, c: ~c,
    lambda b, c: b ^ c,
    lambda b, c: ~(b & c),
    lambda b, c: b & c,
    lambda b, c: ~(b ^ c),
    lambda b, c: c,
    lambda b, c: ~b | c,
    lambda b, c: b,
    lambda b, c: b | ~c,
    lambda b, c: b | c,
    lambda b, c: ~np.zeros_like(b),
)
"""Functions of two bits by their truth table: bit 2·b + c."""


def _table(a: Array, b: Array, c: Array, table: int) -> Array:
    """Any function of three bits: bit 4·a + 2·b + c of `table`."""
    low, high = table & 15, table >> 4 & 15
    return _TWO[low](b, c) ^ (a & _TWO[low ^ high](b, c))


def lop3(words: Words) -> Op:
    join = words.maybe("or", "and")
    words.take("b32")
    words.end()
    if join is None:
        return operation((_B32,) * 4, _B32, lambda a, b, c, table: _table(a, b, c, _last(table)))

    def run(a: Array, b: Array, c: Array, table: Array, q: Array) -> tuple[Array, Array]:
        result = _table(a, b, c, _last(table))
        return result, ((result != 0) | q) if join == "or" else ((result != 0) & q)

    return Op((_B32,) * 4 + (RegType.P,), (_B32, RegType.P), run)


# --- shifts ----------------------------------------------------------------------------------------------------------


def _left(a: Array, count: Array) -> Array:
    """Zero from the width on."""
    bits = a.itemsize * 8
    return np.where(count < bits, a << np.minimum(count, np.uint32(bits - 1)).astype(a.dtype), a.dtype.type(0))


def _right(a: Array, count: Array) -> Array:
    bits = a.itemsize * 8
    return np.where(count < bits, a >> np.minimum(count, np.uint32(bits - 1)).astype(a.dtype), a.dtype.type(0))


def _right_signed(a: Array, count: Array) -> Array:
    """All sign bits from the width on."""
    bits = a.itemsize * 8
    values = of_type(a, "s")
    return (values >> np.minimum(count, np.uint32(bits - 1)).astype(values.dtype)).view(a.dtype)


def _immediate_count(kernel: Kernel, shift: Any) -> Kernel:
    """Without the clamp for one small count, which is what compiled code mostly holds."""

    def shortcut(a: Array, count: Array) -> Array:
        if count.size == 1 and (single := int(count.reshape(-1)[0])) < a.itemsize * 8:
            return shift(a, single)
        return kernel(a, count)

    return shortcut


def shl(words: Words) -> Op:
    reg = width(words.take("b16", "b32", "b64"))
    words.end()
    kernel = _immediate_count(_left, lambda a, n: a << a.dtype.type(n))
    return operation((reg, _B32), reg, kernel)


def shr(words: Words) -> Op:
    kind = words.take("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64")
    words.end()
    reg = width(kind)
    if signed(kind):
        kernel = _immediate_count(
            _right_signed, lambda a, n: (of_type(a, "s") >> of_type(a, "s").dtype.type(n)).view(a.dtype)
        )
    else:
        kernel = _immediate_count(_right, lambda a, n: a >> a.dtype.type(n))
    return operation((reg, _B32), reg, kernel, signed=signed(kind))


def shf(words: Words) -> Op:
    """Funnel shift of the 64 bits `b:a`."""
    direction, mode = words.take("l", "r"), words.take("wrap", "clamp")
    words.take("b32")
    words.end()

    def kernel(a: Array, b: Array, count: Array) -> Array:
        n = np.minimum(count, np.uint32(32)) if mode == "clamp" else count & np.uint32(31)
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        if direction == "l":
            return ((both << n.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32)
        return (both >> n.astype(np.uint64)).astype(np.uint32)

    return operation((_B32,) * 3, _B32, kernel)


# --- fields ----------------------------------------------------------------------------------------------------------


def _ones(length: Array, reg: RegType) -> Array:
    """That many low ones; at most the width."""
    return ~_left(np.full(1, -1 & (2**reg.bits - 1), reg.dtype), np.minimum(length, np.uint32(reg.bits)))


def bfe(words: Words) -> Op:
    kind = words.take("u32", "s32", "u64", "s64")
    words.end()
    reg = width(kind)

    shift = _right_signed if signed(kind) else _right
    bits = np.uint32(reg.bits)

    def kernel(a: Array, position: Array, length: Array) -> Array:
        start, count = position & _COUNT, length & _COUNT
        # The field is moved to the top and back down: above the register there is only the sign.
        above = bits - np.minimum(start + count, bits)
        field = shift(_left(a, above), above + start)
        return np.where(count != 0, field, reg.dtype.type(0)) if signed(kind) else field

    return operation((reg, _B32, _B32), reg, kernel)


def bfi(words: Words) -> Op:
    reg = width(words.take("b32", "b64"))
    words.end()

    def kernel(a: Array, b: Array, position: Array, length: Array) -> Array:
        start = position & _COUNT
        mask = _left(_ones(length & _COUNT, reg), start)
        return (b & ~mask) | (_left(a, start) & mask)

    return operation((reg, reg, _B32, _B32), reg, kernel)


def bmsk(words: Words) -> Op:
    mode = words.take("clamp", "wrap")
    words.take("b32")
    words.end()

    def kernel(start: Array, length: Array) -> Array:
        if mode == "wrap":
            start, length = start & np.uint32(31), length & np.uint32(31)
        return _left(_ones(length, _B32), start)

    return operation((_B32, _B32), _B32, kernel)


def szext(words: Words) -> Op:
    mode, kind = words.take("clamp", "wrap"), words.take("u32", "s32")
    words.end()

    def kernel(a: Array, length: Array) -> Array:
        count = length & np.uint32(31) if mode == "wrap" else np.minimum(length, np.uint32(32))
        field = a & _ones(count, _B32)
        if not signed(kind):
            return field
        sign = (_right(field, count - np.uint32(1)) & np.uint32(1)).astype(np.bool_)
        return np.where(sign, field | ~_ones(count, _B32), field)

    return operation((_B32, _B32), _B32, kernel)


# --- counts ----------------------------------------------------------------------------------------------------------


def _length(a: Array) -> Array:
    """Bits up to the highest one, as `uint32`; 0 for 0."""
    if a.itemsize == 8:
        high = (a >> np.uint64(32)).astype(np.uint32)
        return np.where(high != 0, _length(high) + np.uint32(32), _length(a.astype(np.uint32)))
    return np.frexp(a.astype(np.float64))[1].astype(np.uint32)


def clz(words: Words) -> Op:
    reg = width(words.take("b32", "b64"))
    words.end()
    return operation((reg,), _B32, lambda a: np.uint32(reg.bits) - _length(a))


def popc(words: Words) -> Op:
    reg = width(words.take("b32", "b64"))
    words.end()
    return operation((reg,), _B32, lambda a: np.bitwise_count(a).astype(np.uint32))


def bfind(words: Words) -> Op:
    """Position of the highest bit that is no sign; all ones without one."""
    amount, kind = words.flag("shiftamt"), words.take("u32", "s32", "u64", "s64")
    words.end()
    bits = width(kind).bits

    def kernel(a: Array) -> Array:
        value = np.where(of_type(a, kind) < 0, ~a, a) if signed(kind) else a
        length = _length(value)
        none = length == 0
        position = np.uint32(bits) - length if amount else length - np.uint32(1)
        return np.where(none, np.uint32(0xFFFFFFFF), position)

    return operation((width(kind),), _B32, kernel)


_SWAPS = ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F))


def brev(words: Words) -> Op:
    reg = width(words.take("b32", "b64"))
    words.end()

    def kernel(a: Array) -> Array:
        value = a.byteswap()
        for count, mask in _SWAPS:
            n, low = reg.dtype.type(count), reg.dtype.type(mask & (2**reg.bits - 1))
            value = ((value >> n) & low) | ((value & low) << n)
        return value

    return operation((reg,), reg, kernel)


# --- permutations ----------------------------------------------------------------------------------------------------

_SELECTORS = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}
"""Selector of each mode by the low two bits of the control operand."""


def prmt(words: Words) -> Op:
    words.take("b32")
    mode = words.maybe(*_SELECTORS)
    words.end()

    def kernel(a: Array, b: Array, control: Array) -> Array:
        selector = control if mode is None else np.array(_SELECTORS[mode], np.uint32)[control & np.uint32(3)]
        if selector.size == 1:
            return _permuted_alike(a, b, int(selector.reshape(-1)[0]))
        return _permuted(a, b, selector)

    return operation((_B32,) * 3, _B32, kernel)


def _permuted(a: Array, b: Array, selector: Array) -> Array:
    both = (b.astype(np.uint64) << np.uint64(32)) | a
    result: Array = np.zeros(1, np.uint64)
    for place in range(4):
        nibble = (selector >> np.uint32(4 * place)).astype(np.uint64)
        byte = (both >> ((nibble & np.uint64(7)) << np.uint64(3))) & np.uint64(0xFF)
        sign = np.where(byte >= 0x80, np.uint64(0xFF), np.uint64(0))
        result = result | (np.where(nibble & np.uint64(8), sign, byte) << np.uint64(8 * place))
    return result.astype(np.uint32)


def _permuted_alike(a: Array, b: Array, selector: int) -> Array:
    """One selector for all threads: bytes are copied, not shifted."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    result = np.empty((*shape, 4), np.uint8)
    sources = (np.ascontiguousarray(a)[..., None].view(np.uint8), np.ascontiguousarray(b)[..., None].view(np.uint8))
    for place in range(4):
        nibble = selector >> 4 * place & 15
        byte = sources[nibble >> 2 & 1][..., nibble & 3]
        result[..., place] = (byte.view(np.int8) >> 7).view(np.uint8) if nibble & 8 else byte
    return result.view(np.uint32)[..., 0]


# --- moves -----------------------------------------------------------------------------------------------------------

_MOVABLE = ("pred", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64", "b128")


def _same(a: Array) -> Array:
    return a


def mov(words: Words) -> Op:
    reg = width(words.take(*_MOVABLE))
    words.end()
    return operation((reg,), reg, _same)


def cvta(words: Words) -> Op:
    """An address as it is: what a state space adds is the machine's."""
    words.flag("to")
    words.take("const", "global", "local", "shared", "shared::cta", "shared::cluster", "param", "param::entry")
    reg = width(words.take("u32", "u64"))
    words.end()
    return operation((reg,), reg, _same)


def _selected(a: Array, b: Array, p: Array) -> Array:
    return np.where(p, a, b)


def selp(words: Words) -> Op:
    reg = width(words.take("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"))
    words.end()
    return operation((reg, reg, RegType.P), reg, _selected)


def slct(words: Words) -> Op:
    """The first where the third is not negative; NaN is."""
    flush = words.flag("ftz")
    reg = width(words.take("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"))
    by = words.take("s32", "f32")
    words.end()
    if flush and by != "f32":
        raise Unsupported
    # Flushed subnormals become zeros of their sign; a negative zero is not negative.
    least = np.float32(-np.finfo(np.float32).smallest_normal if flush else 0.0)

    def kernel(a: Array, b: Array, c: Array) -> Array:
        if by == "s32":
            return np.where(c.view(np.int32) >= 0, a, b)
        number = c.view(np.float32)
        return np.where(number > least if flush else number >= 0, a, b)

    return operation((reg, reg, _B32), reg, kernel)


FAMILY: Family = {
    "and": _binary(np.bitwise_and),
    "or": _binary(np.bitwise_or),
    "xor": _binary(np.bitwise_xor),
    "not": invert,
    "cnot": cnot,
    "lop3": lop3,
    "shl": shl,
    "shr": shr,
    "shf": shf,
    "bfe": bfe,
    "bfi": bfi,
    "bmsk": bmsk,
    "szext": szext,
    "clz": clz,
    "popc": popc,
    "bfind": bfind,
    "brev": brev,
    "prmt": prmt,
    "mov": mov,
    "cvta": cvta,
    "selp": selp,
    "slct": slct,
}
