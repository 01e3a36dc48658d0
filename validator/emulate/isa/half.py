"""Arithmetic of f16 and bf16, single and packed.

Sums and products are computed in binary32 and rounded once more: its 24 bits are at least 2·11 + 2, so that is one
rounding (Figueroa 1995); a bf16 product too small for 24 bits in binary32 is far below half of the least subnormal.
Fused operations are computed in binary64 with `fused_sum`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from validator.emulate.isa.integers import packed
from validator.emulate.isa.model import Array, Kernel, Op, operation
from validator.emulate.isa.numbers import BF16, F16, Format, canonical, fused_sum, saturated
from validator.emulate.isa.words import Family, Unsupported, Words, width

__all__ = ["FAMILY", "HALVES", "each_half", "half_format"]

_NORMAL = np.float32(2.0**-14 * (1 - 2.0**-12))
"""From here on f16 rounds to a normal number, as if exponents had no end; less is flushed."""
HALVES = ("f16", "f16x2", "bf16", "bf16x2")


def half_format(kind: str) -> Format:
    return F16 if kind.startswith("f16") else BF16


def each_half(kind: str, kernel: Kernel) -> Kernel:
    """`kernel` over 16-bit elements, for a packed type over both halves."""
    return packed(kernel) if kind.endswith("x2") else kernel


def flushed_half(bits: Array) -> Array:
    """f16 bits with subnormals replaced by zeros of their sign."""
    return np.where((bits & np.uint16(0x7C00)) == 0, bits & np.uint16(0x8000), bits)


def _finished(form: Format, kernel: Kernel, flush: bool, saturate: bool, relu: bool) -> Kernel:
    """`kernel` maps decoded numbers to a number; the result is rounded, clamped and given the one NaN."""

    def run(*arrays: Array) -> Array:
        if flush:
            arrays = tuple(flushed_half(a) for a in arrays)
        value = kernel(*(form.decode(a) for a in arrays))
        if flush:
            value = np.where(np.abs(value) < _NORMAL, np.copysign(value.dtype.type(0), value), value)
        if saturate:
            value = saturated(value)
        bits = canonical(form, form.encode(value))
        if relu:
            # NaN stays; everything negative, and negative zero, becomes zero.
            bits = np.where((bits & form.sign) != 0, np.uint16(0), bits)
        return bits

    return run


def _arithmetic(
    count: int, kernel: Callable[[Format], Kernel], *, relu: bool = False, mode: bool = False
) -> Callable[[Words], Op]:
    def build(words: Words) -> Op:
        if mode:
            words.take("rn")
        else:
            words.flag("rn")
        flush, saturate, positive = words.flag("ftz"), words.flag("sat"), relu and words.flag("relu")
        kind = words.take(*HALVES)
        words.end()
        form = half_format(kind)
        if form is BF16 and (flush or saturate):
            raise Unsupported
        return operation(
            (width(kind),) * count,
            width(kind),
            each_half(kind, _finished(form, kernel(form), flush, saturate, positive)),
        )

    return build


def _fused(form: Format) -> Kernel:
    return lambda a, b, c: fused_sum(form, np.multiply(a, b, dtype=np.float64), c)


def _plain(kernel: Kernel) -> Callable[[Format], Kernel]:
    return lambda form: kernel


def _signs(change: Callable[[Array], Array]) -> Callable[[Words], Op]:
    def build(words: Words) -> Op:
        flush, kind = words.flag("ftz"), words.take(*HALVES)
        words.end()
        if flush and half_format(kind) is BF16:
            raise Unsupported
        kernel = each_half(kind, lambda a: change(flushed_half(a) if flush else a))
        return operation((width(kind),), width(kind), kernel)

    return build


FAMILY: Family = {
    "add": _arithmetic(2, _plain(np.add)),
    "sub": _arithmetic(2, _plain(np.subtract)),
    "mul": _arithmetic(2, _plain(np.multiply)),
    "fma": _arithmetic(3, _fused, relu=True, mode=True),
    "abs": _signs(lambda bits: bits & np.uint16(0x7FFF)),
    "neg": _signs(lambda bits: bits ^ np.uint16(0x8000)),
}
