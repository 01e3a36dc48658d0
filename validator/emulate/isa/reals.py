"""Arithmetic of single and double precision with every rounding mode, flushing and saturation; f32 in pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from validator.emulate.isa.exact import fma64
from validator.emulate.isa.integers import same_length
from validator.emulate.isa.model import Array, Kernel, Op, RegType, operation
from validator.emulate.isa.numbers import (
    F32,
    F64,
    LIFT,
    MODES,
    canonical,
    directed,
    flushed,
    fused_sum,
    odd_sum,
    rounded,
    saturated,
    still_normal,
)
from validator.emulate.isa.words import Family, Unsupported, Words, width

__all__ = ["FAMILY", "fma32"]


def _wide(bits: Array) -> Array:
    return bits.view(np.float32).astype(np.float64)


# --- single precision ------------------------------------------------------------------------------------------------


def _add32(mode: str) -> Kernel:
    if mode == "rn":
        return lambda a, b: canonical(F32, (a.view(np.float32) + b.view(np.float32)).view(np.uint32))

    return lambda a, b: _rounded_sum(_wide(a), _wide(b), mode)


def _rounded_sum(a: Array, b: Array, mode: str) -> Array:
    """Binary32 bits of the sum of two binary64 arrays."""
    total = odd_sum(a, b)
    bits = rounded(F32, total, mode)
    if mode != "rm":
        return bits
    # Rounding down, terms that cancel sum to negative zero.
    return np.where((total == 0) & (np.signbit(a) | np.signbit(b)), F32.sign, bits)


def _mul32(mode: str) -> Kernel:
    if mode == "rn":
        return lambda a, b: canonical(F32, (a.view(np.float32) * b.view(np.float32)).view(np.uint32))
    # 48 bits: exact in binary64.
    return lambda a, b: rounded(F32, np.multiply(a.view(np.float32), b.view(np.float32), dtype=np.float64), mode)


def fma32(a: Array, b: Array, c: Array, mode: str = "rn") -> Array:
    """a·b + c, rounded once: the product is exact in binary64."""
    product = np.multiply(a.view(np.float32), b.view(np.float32), dtype=np.float64)
    if mode != "rn":
        return _rounded_sum(product, _wide(c), mode)
    return canonical(F32, fused_sum(F32, product, c.view(np.float32)).astype(np.float32).view(np.uint32))


def _fma32(mode: str) -> Kernel:
    return lambda a, b, c: fma32(a, b, c, mode)


def _div32(mode: str) -> Kernel:
    def kernel(a: Array, b: Array) -> Array:
        x, y = a.view(np.float32), b.view(np.float32)
        near = x / y
        if mode == "rn":
            return canonical(F32, near.view(np.uint32))
        # The quotient times the divisor is exact in binary64; the sign of what is left says which side it is on.
        rest = x.astype(np.float64) - near.astype(np.float64) * y
        side = np.where(np.signbit(y), -rest, rest)
        return canonical(F32, directed(F32, near.view(np.uint32), side < 0, side > 0, mode))

    return kernel


def _rcp32(mode: str) -> Kernel:
    divide = _div32(mode)
    one = np.array([0x3F800000], np.uint32)
    return lambda a: divide(one, a)


def _sqrt32(mode: str) -> Kernel:
    def kernel(a: Array) -> Array:
        near = np.sqrt(a.view(np.float32))
        rest = a.view(np.float32).astype(np.float64) - near.astype(np.float64) ** 2
        return canonical(F32, directed(F32, near.view(np.uint32), rest < 0, rest > 0, mode))

    return kernel


# --- double precision ------------------------------------------------------------------------------------------------

_ONE64 = np.array([0x3FF0000000000000], np.uint64)


def _add64(mode: str) -> Kernel:
    if mode == "rn":
        return lambda a, b: canonical(F64, (a.view(np.float64) + b.view(np.float64)).view(np.uint64))
    return lambda a, b: canonical(F64, fma64(a, _ONE64, b, mode))


def _mul64(mode: str) -> Kernel:
    if mode == "rn":
        return lambda a, b: canonical(F64, (a.view(np.float64) * b.view(np.float64)).view(np.uint64))
    # A zero of the product's sign leaves its sign alone.
    return lambda a, b: canonical(F64, fma64(a, b, (a ^ b) & F64.sign, mode))


def _fma64(mode: str) -> Kernel:
    return lambda a, b, c: canonical(F64, fma64(a, b, c, mode))


def _settled64(near: Array, minus: Array, by: Array, of: Array, mode: str) -> Array:
    """`near` moved to its side of the exact result, by the sign of of - near·by; `minus` flips that sign."""
    bits = near.view(np.uint64)
    if mode == "rn":
        return canonical(F64, bits)
    # Rounded outward, the rest is zero only if it is.
    low = fma64(bits ^ F64.sign, by, of, "rm").view(np.float64) < 0
    high = fma64(bits ^ F64.sign, by, of, "rp").view(np.float64) > 0
    above, below = np.where(minus, high, low), np.where(minus, low, high)
    return canonical(F64, directed(F64, bits, above, below, mode))


def _div64(mode: str) -> Kernel:
    def kernel(a: Array, b: Array) -> Array:
        y = b.view(np.float64)
        return _settled64(a.view(np.float64) / y, np.signbit(y), b, a, mode)

    return kernel


def _rcp64(mode: str) -> Kernel:
    divide = _div64(mode)
    return lambda a: divide(_ONE64, a)


def _sqrt64(mode: str) -> Kernel:
    def kernel(a: Array) -> Array:
        near = np.sqrt(a.view(np.float64))
        return _settled64(near, np.zeros(1, np.bool_), near.view(np.uint64), a, mode)

    return kernel


# --- forms -----------------------------------------------------------------------------------------------------------


def finished(kernel: Kernel, flush: bool, saturate: bool, *, scaled: tuple[int, ...] = ()) -> Kernel:
    """Single precision with subnormal inputs and results flushed, and the result clamped to [0, 1].

    `scaled` are the operands whose scaling scales the result, where rounding can reach the smallest normal number.
    """
    inner = _flushing(kernel, scaled) if flush else kernel
    if not saturate:
        return inner
    return lambda *arrays: saturated(inner(*arrays).view(np.float32)).view(np.uint32)


def _flushing(kernel: Kernel, scaled: tuple[int, ...]) -> Kernel:
    """A result is subnormal if it is so after rounding to 24 bits, as if exponents had no end."""

    def run(*arrays: Array) -> Array:
        arrays = tuple(flushed(a) for a in arrays)
        result = flushed(kernel(*arrays))
        doubtful = (result & ~F32.sign) == np.uint32(F32.smallest_normal)
        if not scaled or not doubtful.any():
            return result
        chosen = [np.broadcast_to(a, doubtful.shape)[doubtful] for a in arrays]
        for position in scaled:
            chosen[position] = (chosen[position].view(np.float32) * LIFT).view(np.uint32)
        result[doubtful] = still_normal(result[doubtful], kernel(*chosen))
        return result

    return run


def _pairs(kernel: Kernel) -> Kernel:
    """`kernel` over both 32-bit halves of 64-bit words."""

    return lambda *arrays: kernel(*(a.view(np.uint32) for a in same_length(arrays))).view(np.uint64)


def _arithmetic(
    count: int,
    single: Callable[[str], Kernel],
    double: Callable[[str], Kernel],
    *,
    mode: bool = False,
    scaled: tuple[int, ...] = (),
) -> Callable[[Words], Op]:
    """Builder of an instruction with `count` inputs; `mode`: the rounding must be written; `scaled`: see `finished`."""

    def build(words: Words) -> Op:
        rounding = words.take(*MODES) if mode else words.maybe(*MODES) or "rn"
        flush, saturate = words.flag("ftz"), words.flag("sat")
        kind = words.take("f32", "f64", "f32x2")
        words.end()
        if kind == "f64":
            if flush or saturate:
                raise Unsupported
            return operation((RegType.B64,) * count, RegType.B64, double(rounding))
        kernel = finished(single(rounding), flush, saturate, scaled=scaled)
        reg = width(kind)
        return operation((reg,) * count, reg, _pairs(kernel) if kind == "f32x2" else kernel)

    return build


def _minus(kernel: Kernel, sign: np.unsignedinteger[Any]) -> Kernel:
    """a - b as a + (-b): a NaN loses its sign anyway."""
    return lambda a, b: kernel(a, b ^ sign)


# --- signs, order, classes -------------------------------------------------------------------------------------------


def absolute(words: Words) -> Op:
    return _signed(words, lambda bits, sign: bits & ~sign)


def negative(words: Words) -> Op:
    return _signed(words, lambda bits, sign: bits ^ sign)


def _signed(words: Words, change: Callable[[Array, Array], Array]) -> Op:
    flush, kind = words.flag("ftz"), words.take("f32", "f64")
    words.end()
    if flush and kind == "f64":
        raise Unsupported
    form = F32 if kind == "f32" else F64

    def kernel(a: Array) -> Array:
        return change(flushed(a) if flush else a, form.sign)

    return operation((form.reg,), form.reg, kernel)


def copysign(words: Words) -> Op:
    """The second with the first's sign."""
    form = F32 if words.take("f32", "f64") == "f32" else F64
    words.end()
    return operation((form.reg,) * 2, form.reg, lambda a, b: (a & form.sign) | (b & ~form.sign))


def testp(words: Words) -> Op:
    what = words.take("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    form = F32 if words.take("f32", "f64") == "f32" else F64
    words.end()

    def kernel(a: Array) -> Array:
        size = a & ~form.sign
        infinity, normal = form.reg.dtype.type(form.infinity), form.reg.dtype.type(form.smallest_normal)
        return {
            "finite": lambda: size < infinity,
            "infinite": lambda: size == infinity,
            "number": lambda: size <= infinity,
            "notanumber": lambda: size > infinity,
            # Zeros count as normal.
            "normal": lambda: ((size >= normal) & (size < infinity)) | (size == 0),
            "subnormal": lambda: (size > 0) & (size < normal),
        }[what]()

    return operation((form.reg,), RegType.P, kernel)


FAMILY: Family = {
    "add": _arithmetic(2, _add32, _add64),
    "sub": _arithmetic(2, lambda m: _minus(_add32(m), F32.sign), lambda m: _minus(_add64(m), F64.sign)),
    "mul": _arithmetic(2, _mul32, _mul64, scaled=(0,)),
    "fma": _arithmetic(3, _fma32, _fma64, mode=True, scaled=(0, 2)),
    "mad": _arithmetic(3, _fma32, _fma64, scaled=(0, 2)),
    "div": _arithmetic(2, _div32, _div64, mode=True, scaled=(0,)),
    "rcp": _arithmetic(1, _rcp32, _rcp64, mode=True),
    "sqrt": _arithmetic(1, _sqrt32, _sqrt64, mode=True),
    "abs": absolute,
    "neg": negative,
    "copysign": copysign,
    "testp": testp,
}
