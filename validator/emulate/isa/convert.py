"""`cvt` between integers and floating-point numbers, one element at a time. Packed and small formats: `narrow`."""

from __future__ import annotations

import numpy as np

from validator.emulate.isa.integers import of_type
from validator.emulate.isa.model import Array, Kernel, Op, operation
from validator.emulate.isa.narrow import clamped, packed_conversion
from validator.emulate.isa.numbers import (
    BF16,
    F16,
    F32,
    F64,
    FORMATS,
    LIFT,
    MODES,
    Format,
    canonical,
    directed,
    flushed,
    rounded,
    saturated,
    still_normal,
)
from validator.emulate.isa.small import pack_conversion
from validator.emulate.isa.words import Family, Unsupported, Words, signed, width

__all__ = ["FAMILY"]

_INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_FLOATS = tuple(FORMATS)


def cvt(words: Words) -> Op:
    """Any conversion of PTX that this package has semantics for."""
    if words.flag("pack"):
        return pack_conversion(words)
    if (op := packed_conversion(words)) is not None:
        return op
    mode, integral = words.maybe(*MODES), words.maybe(*_INTEGRAL)
    flush, saturate = words.flag("ftz"), words.flag("sat")
    finite, relu = words.flag("satfinite"), words.flag("relu")
    target, source = words.take(*_INTEGERS, *_FLOATS), words.take(*_INTEGERS, *_FLOATS)
    words.end()
    if flush and "f32" not in (target, source):
        raise Unsupported
    if target in _FLOATS and source in _FLOATS:
        kernel = _float_to_float(target, source, mode, integral, flush, saturate, relu)
        if finite:
            kernel = _within_finite(kernel, FORMATS[target], FORMATS[source])
    elif relu or finite:
        raise Unsupported
    elif target in _FLOATS:
        kernel = _integer_to_float(target, source, mode or "rn", saturate)
    elif source in _FLOATS:
        kernel = _float_to_integer(target, source, integral or "rzi", flush)
    else:
        kernel = _integer_to_integer(target, source, saturate)
    return operation((width(source),), width(target), kernel, signed=signed(target))


# --- integers --------------------------------------------------------------------------------------------------------


def _range(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed(kind) else (0, (1 << bits) - 1)


def _integer_to_integer(target: str, source: str, saturate: bool) -> Kernel:
    dtype = width(target).dtype
    if not saturate:
        # Numpy wraps; a signed source is extended by its sign.
        return lambda a: of_type(a, source).astype(dtype)
    (least, greatest), (low, high) = _range(target), _range(source)

    def kernel(a: Array) -> Array:
        values = of_type(a, source)
        return np.clip(values, max(least, low), min(greatest, high)).astype(dtype)

    return kernel


# --- integers to floating point --------------------------------------------------------------------------------------


def _odd_double(values: Array) -> Array:
    """Integers as binary64 rounded to odd."""
    if values.itemsize < 8:
        return values.astype(np.float64)
    low = values.dtype.type(0x7FF)
    # From 2^53 on the low 11 bits are put into one; below, every integer is exact.
    large = (values >> values.dtype.type(53)) != 0
    if values.dtype == np.int64:
        large &= (values >> np.int64(53)) != -1
    jammed = (values & ~low) | (((values & low) != 0).astype(values.dtype) << values.dtype.type(11))
    return np.where(large, jammed, values).astype(np.float64)


def _to_double(values: Array, mode: str) -> Array:
    near = values.astype(np.float64)
    if mode == "rn" or values.itemsize < 8:
        return near.view(np.uint64)
    # Both parts are exact, and so is what the nearest value lacks.
    low = values & values.dtype.type(0x7FF)
    rest = ((values - low).astype(np.float64) - near) + low.astype(np.float64)
    return directed(F64, near.view(np.uint64), rest < 0, rest > 0, mode)


def _integer_to_float(target: str, source: str, mode: str, saturate: bool) -> Kernel:
    form = FORMATS[target]

    def kernel(a: Array) -> Array:
        values = of_type(a, source)
        if saturate:
            values = np.clip(values, 0, 1)
        if form is F64:
            return _to_double(values, mode)
        if form is F32 and mode == "rn":
            return values.astype(np.float32).view(np.uint32)
        return rounded(form, _odd_double(values), mode)

    return kernel


# --- floating point to integers --------------------------------------------------------------------------------------


def _float_to_integer(target: str, source: str, integral: str, flush: bool) -> Kernel:
    """Clamped to the type's range. NaN is zero; for 64-bit results and from f64 it is the top bit alone."""
    form, reg = FORMATS[source], width(target)
    least, greatest = _range(target)
    bits = reg.bits
    nan = 1 << (bits - 1) if bits == 64 or form is F64 else 0
    integer = np.dtype(f"{'int' if signed(target) else 'uint'}{bits}")
    # The greatest 64-bit integers are no floating-point numbers.
    beyond = np.float64(2.0 ** (bits - 1 if signed(target) else bits))
    whole = _INTEGRAL[integral]

    def kernel(a: Array) -> Array:
        value = whole(form.decode(flushed(a) if flush and form is F32 else a)).astype(np.float64)
        none = value != value
        if bits < 64:
            result = np.clip(value, least, greatest).astype(np.int64).astype(reg.dtype)
        else:
            over = value >= beyond
            result = np.where(over, 0, np.maximum(value, least)).astype(integer).view(reg.dtype)
            result = np.where(over, reg.dtype.type(greatest), result)
        return np.where(none, reg.dtype.type(nan), result) if none.any() else result

    return kernel


# --- floating point to floating point --------------------------------------------------------------------------------


def _float_to_float(
    target: str, source: str, mode: str | None, integral: str | None, flush: bool, saturate: bool, relu: bool
) -> Kernel:
    form, of = FORMATS[target], FORMATS[source]
    whole = _INTEGRAL[integral] if integral else None
    if form.reg.bits < of.reg.bits and mode is None:
        raise Unsupported
    if relu and form not in (F16, BF16):
        raise Unsupported
    rounding = mode or "rn"

    if form is F32 and of is BF16 and not (saturate or whole):
        return lambda a: of.decode(a).view(np.uint32)
    # ptxas gives conversions to f16 that do not flush.
    flush_source, flush_result = flush and of is F32 and form is not F16, flush and form is F32

    def kernel(a: Array) -> Array:
        bits = flushed(a) if flush_source else a
        value = of.decode(bits)
        if whole is not None:
            value = whole(value)
        if saturate:
            value = saturated(value)
        result = _encoded(form, value, rounding)
        if relu:
            result = np.where((result & form.sign) != 0, form.reg.dtype.type(0), result)
        return _flushed_result(result, value, rounding) if flush_result else result

    return kernel


def _within_finite(kernel: Kernel, form: Format, of: Format) -> Kernel:
    """`.satfinite`: what is greater than the greatest finite number becomes that."""
    if of is not F32 or form not in (F16, BF16):
        raise Unsupported
    return lambda a: kernel(clamped(form, a.view(np.float32)).view(np.uint32))


def _flushed_result(bits: Array, value: Array, mode: str) -> Array:
    """Flushed where binary32 would be subnormal as if exponents had no end."""
    result = flushed(bits)
    doubtful = (result & ~F32.sign) == np.uint32(F32.smallest_normal)
    if value.dtype == np.float32 or not doubtful.any():
        return result
    result[doubtful] = still_normal(result[doubtful], rounded(F32, value[doubtful] * np.float64(LIFT), mode))
    return result


def _encoded(form: Format, value: Array, mode: str) -> Array:
    """Numbers of any width as bits of `form`, always in new memory."""
    if form is F64:
        return canonical(F64, value.astype(np.float64).view(np.uint64))
    if form is F32 and value.dtype == np.float32:
        return canonical(F32, value.copy().view(np.uint32))
    return rounded(form, value, mode)


FAMILY: Family = {"cvt": cvt}
