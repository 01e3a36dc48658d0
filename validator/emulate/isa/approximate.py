"""The approximate functions: computed more precisely than the hardware does, well within the documented error.

Signs, zeros, infinities and NaN are those that the ISA lists.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from validator.emulate.isa.half import HALVES, each_half, half_format
from validator.emulate.isa.model import Array, Kernel, Op, RegType, operation
from validator.emulate.isa.numbers import BF16, F32, F64, canonical
from validator.emulate.isa.reals import finished
from validator.emulate.isa.words import Family, Unsupported, Words, width

__all__ = ["FAMILY"]


def _single(function: Kernel) -> Kernel:
    """Bits to bits, by a function that answers in binary64."""

    def kernel(*arrays: Array) -> Array:
        value = function(*(a.view(np.float32) for a in arrays))
        return canonical(F32, value.astype(np.float32).view(np.uint32))

    return kernel


def _quick(function: Kernel) -> Kernel:
    """Bits to bits, evaluated in binary32."""
    return lambda *arrays: canonical(F32, function(*(a.view(np.float32) for a in arrays)).view(np.uint32))


def _function(function: Kernel, *, count: int = 1) -> Callable[[Words], Op]:
    """Builder of NAME.approx{.ftz}.f32."""

    def build(words: Words) -> Op:
        words.take("approx")
        flush = words.flag("ftz")
        words.take("f32")
        words.end()
        return operation((RegType.B32,) * count, RegType.B32, finished(function, flush, False))

    return build


def _reciprocal_root(x: Array) -> Array:
    """In binary64, whatever the argument."""
    return 1 / np.sqrt(x, dtype=np.float64)


def _coarse64(function: Kernel) -> Kernel:
    """The upper word of a binary64 function of the upper word; the lower is zero, subnormals are flushed."""
    upper = np.uint64(0xFFFFFFFF00000000)

    def kernel(a: Array) -> Array:
        bits = a & upper
        bits = np.where((bits & np.uint64(F64.infinity)) == 0, bits & F64.sign, bits)
        result = canonical(F64, function(bits.view(np.float64)).view(np.uint64)) & upper
        return np.where((result & np.uint64(F64.infinity)) == 0, result & F64.sign, result)

    return kernel


def _with_double(single: Kernel, double: Kernel) -> Callable[[Words], Op]:
    """Builder of `rcp` and `rsqrt`: approximate single precision, coarse double precision."""
    narrow = _function(single)

    def build(words: Words) -> Op:
        if "f64" not in words:
            return narrow(words)
        words.take("approx")
        words.flag("ftz")
        words.take("f64")
        words.end()
        return operation((RegType.B64,), RegType.B64, _coarse64(double))

    return build


def divide(words: Words) -> Op:
    """`div.full`, and `div.approx`, which gives zero for divisors beyond 2^126."""
    full = words.maybe("full", "approx")
    if full is None:
        raise Unsupported
    flush = words.flag("ftz")
    words.take("f32")
    words.end()
    ratio = _quick(np.divide)
    if full == "full":
        return operation((RegType.B32,) * 2, RegType.B32, finished(ratio, flush, False))
    large = np.uint32(0x7E800000)

    def kernel(a: Array, b: Array) -> Array:
        size = b & ~F32.sign
        beyond = (size > large) & (size < np.uint32(F32.infinity))
        if not beyond.any():
            return ratio(a, b)
        zero = (a ^ b) & F32.sign
        top = a & ~F32.sign
        result = np.where(top >= np.uint32(F32.infinity), np.uint32(F32.nan), zero)
        return np.where(beyond, result, ratio(a, b))

    return operation((RegType.B32,) * 2, RegType.B32, finished(kernel, flush, False))


def _any_precision(function: Kernel) -> Callable[[Words], Op]:
    """Builder of `ex2` and `tanh`: f32, and halves computed in binary32."""
    single = _function(_quick(function))

    def build(words: Words) -> Op:
        kind = words.maybe(*HALVES)
        if kind is None:
            return single(words)
        words.take("approx")
        flush = words.flag("ftz")
        words.end()
        form = half_format(kind)

        def kernel(a: Array) -> Array:
            bits = np.where((a & np.uint16(0x7F80)) == 0, a & np.uint16(0x8000), a) if flush else a
            result = canonical(form, form.encode(function(form.decode(bits))))
            return np.where((result & np.uint16(0x7F80)) == 0, result & np.uint16(0x8000), result) if flush else result

        if flush and form is not BF16:
            raise Unsupported
        return operation((width(kind),), width(kind), each_half(kind, kernel))

    return build


FAMILY: Family = {
    "ex2": _any_precision(np.exp2),
    "lg2": _function(_quick(np.log2)),
    "sin": _function(_quick(np.sin)),
    "cos": _function(_quick(np.cos)),
    "tanh": _any_precision(np.tanh),
    "rcp": _with_double(_quick(np.reciprocal), np.reciprocal),
    "sqrt": _function(_quick(np.sqrt)),
    "rsqrt": _with_double(_single(_reciprocal_root), _reciprocal_root),
    "div": divide,
}
