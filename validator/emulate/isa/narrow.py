"""`cvt` to and from packed and small formats: f16x2, bf16x2, tf32, the 8-bit e4m3 and e5m2."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from validator.emulate.isa.model import Array, Op, RegType, operation
from validator.emulate.isa.numbers import BF16, F16, F32, Format, canonical, rounded
from validator.emulate.isa.words import Unsupported, Words

__all__ = ["packed_conversion"]

_HALVES = {"f16x2": F16, "bf16x2": BF16}
_SMALL: dict[str, tuple[Any, float]] = {
    "e4m3x2": (ml_dtypes.float8_e4m3fn, 448.0),
    "e5m2x2": (ml_dtypes.float8_e5m2, 57344.0),
}
"""Type and greatest finite number."""
_SMALL_NAN = 0x7F


def packed_conversion(words: Words) -> Op | None:
    """The conversion, or None where no type is packed or small."""
    if "tf32" in words:
        return _to_tf32(words)
    small = words.maybe(*_SMALL)
    if small is not None:
        return _of_small(words, small)
    half = words.maybe(*_HALVES)
    return _pair(words, _HALVES[half]) if half is not None else None


def _relu(form: Format, bits: Array) -> Array:
    return np.where((bits & form.sign) != 0, form.reg.dtype.type(0), bits)


def _clamped(form: Format, value: Array) -> Array:
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
        result = rounded(form, _clamped(form, value) if finite else value, mode)
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
            return (a & sign) | np.where(before >= infinity, before & ~low, size)
        size = np.where(before == infinity, infinity, size)
        if finite:
            size = np.where((size >= infinity) & (before <= infinity), greatest, size)
        bits = (a & sign) | size
        if relu:
            bits = _relu(F32, bits)
        return np.where(before > infinity, np.uint32(F32.nan) & ~low, bits)

    return operation((RegType.B32,), RegType.B32, kernel)


def _of_small(words: Words, small: str) -> Op:
    dtype, greatest = _SMALL[small]
    words.take("rn")
    relu, finite = words.flag("relu"), words.flag("satfinite")
    other = words.take("f32", "f16x2")
    words.end()

    def encode(value: Array) -> Array:
        bits = np.clip(value, -greatest, greatest).astype(dtype).view(np.uint8)
        none = value != value
        if none.any():
            bits[none] = _SMALL_NAN
        return np.where((bits & 0x80) != 0, np.uint8(0), bits) if relu else bits

    if finite and other == "f32":

        def narrow(a: Array, b: Array) -> Array:
            high, low = encode(a.view(np.float32)), encode(b.view(np.float32))
            return (high.astype(np.uint16) << np.uint16(8)) | low

        return operation((RegType.B32,) * 2, RegType.B16, narrow)
    if finite:

        def narrow_pair(a: Array) -> Array:
            parts = encode(np.ascontiguousarray(a)[..., None].view(np.float16).astype(np.float32))
            return np.ascontiguousarray(parts).view(np.uint16)[..., 0]

        return operation((RegType.B32,), RegType.B16, narrow_pair)
    if other != "f16x2":
        raise Unsupported

    def widen(a: Array) -> Array:
        parts = np.ascontiguousarray(a)[..., None].view(np.uint8).view(dtype)
        bits = canonical(F16, parts.astype(np.float16).view(np.uint16))
        return np.ascontiguousarray(_relu(F16, bits) if relu else bits).view(np.uint32)[..., 0]

    return operation((RegType.B16,), RegType.B32, widen)
