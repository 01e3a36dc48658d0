"""`cvt` to packed halves and tf32; the 8-bit and smaller formats are `small`'s."""

from __future__ import annotations

import numpy as np

from validator.emulate.isa.model import Array, Op, RegType, operation
from validator.emulate.isa.numbers import BF16, F16, F32, Format, rounded
from validator.emulate.isa.small import small_conversion
from validator.emulate.isa.words import Words

__all__ = ["clamped", "packed_conversion"]

_HALVES = {"f16x2": F16, "bf16x2": BF16}


def packed_conversion(words: Words) -> Op | None:
    """The conversion, or None where no type is packed or small."""
    if "tf32" in words:
        return _to_tf32(words)
    if (op := small_conversion(words)) is not None:
        return op
    half = words.maybe(*_HALVES)
    return _pair(words, _HALVES[half]) if half is not None else None


def _relu(form: Format, bits: Array) -> Array:
    return np.where((bits & form.sign) != 0, form.reg.dtype.type(0), bits)


def clamped(form: Format, value: Array) -> Array:
    """Within the finite numbers of `form`; NaN stays."""
    greatest = form.decode(np.array([form.finite], form.reg.dtype))
    return np.clip(value, -greatest, greatest)


def _pair(words: Words, form: Format) -> Op:
    """Two binary32 numbers, the first into the upper half."""
    mode, relu, finite = words.take("rn", "rz"), words.flag("relu"), words.flag("satfinite")
    words.take("f32")
    words.end()

    def single(bits: Array) -> Array:
        value = bits.view(np.float32)
        result = rounded(form, clamped(form, value) if finite else value, mode)
        return _relu(form, result) if relu else result

    def kernel(a: Array, b: Array) -> Array:
        return (single(a).astype(np.uint32) << np.uint32(16)) | single(b)

    return operation((RegType.B32,) * 2, RegType.B32, kernel)


def _to_tf32(words: Words) -> Op:
    """10 fraction bits in a binary32 register, the 13 below zero."""
    mode, relu, finite = words.take("rna", "rn", "rz"), words.flag("relu"), words.flag("satfinite")
    words.take("tf32")
    words.take("f32")
    words.end()
    low, sign = np.uint32(0x1FFF), F32.sign
    greatest = np.uint32(0x7F7FE000)

    def kernel(a: Array) -> Array:
        size = a & ~sign
        if mode == "rna":
            size = size + np.uint32(0x1000)
        elif mode == "rn":
            size = size + (np.uint32(0x0FFF) + ((size >> np.uint32(13)) & np.uint32(1)))
        size = size & ~low
        infinity = np.uint32(F32.infinity)
        before = a & ~sign
        if mode == "rna":
            # Cut, also where that makes an infinity of a NaN: so does an H200.
            size = np.where(before >= infinity, before & ~low, size)
            # One step down from there, which makes the greatest number of an infinity: an H200 does it to a NaN too.
            return (a & sign) | (np.where(size >= infinity, size - (low + np.uint32(1)), size) if finite else size)
        size = np.where(before == infinity, infinity, size)
        if finite:
            size = np.where((size >= infinity) & (before <= infinity), greatest, size)
        bits = (a & sign) | size
        if relu:
            bits = _relu(F32, bits)
        return np.where(before > infinity, np.uint32(F32.nan) & ~low, bits)

    return operation((RegType.B32,), RegType.B32, kernel)
