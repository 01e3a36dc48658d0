"""Comparisons into predicates and registers; least and greatest of floating-point numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from validator.emulate.isa.half import HALVES, each_half, flushed_half, half_format
from validator.emulate.isa.integers import INTEGERS, halves, joined, of_type
from validator.emulate.isa.model import Array, Kernel, Op, RegType, operation
from validator.emulate.isa.numbers import BF16, F16, F32, F64, Format, flushed
from validator.emulate.isa.words import Family, Unsupported, Words, width

__all__ = ["FAMILY"]

_ORDERED: dict[str, Kernel] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def _float_comparison(name: str) -> Kernel:
    """Over numbers: the plain ones are false for a NaN (`ne` too), those with `u` are true."""
    if name == "num":
        return lambda x, y: (x == x) & (y == y)
    if name == "nan":
        return lambda x, y: (x != x) | (y != y)
    if name == "ne":
        return lambda x, y: (x < y) | (x > y)
    if name == "neu":
        return np.not_equal
    if name in _ORDERED:
        return _ORDERED[name]
    opposite = {"equ": "ne", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}[name]
    kernel = _float_comparison(opposite)
    return lambda x, y: ~kernel(x, y)


_FLOAT_NAMES = (*_ORDERED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_ANY_NAMES = (*_FLOAT_NAMES, *_UNSIGNED_NAMES)
_BITS = ("b16", "b32", "b64")
_COMBINE: dict[str, Kernel] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def _decoded(kind: str, flush: bool) -> Kernel:
    if kind == "f64":
        return F64.decode
    if kind == "f32":
        return (lambda bits: flushed(bits).view(np.float32)) if flush else F32.decode
    form = half_format(kind)
    if form is F16:
        return (lambda bits: flushed_half(bits).view(np.float16)) if flush else (lambda bits: bits.view(np.float16))
    return form.decode


def _comparison(name: str, kind: str, flush: bool) -> Kernel:
    """Over bits of one element; of halves on their own axis for a packed type."""
    if kind in INTEGERS or kind in _BITS:
        if flush or (kind in _BITS and name not in ("eq", "ne")):
            raise Unsupported
        name = _UNSIGNED_NAMES.get(name, name)
        if name not in _ORDERED:
            raise Unsupported
        compare = _ORDERED[name]
        if kind.startswith("s"):
            return lambda a, b: compare(of_type(a, kind), of_type(b, kind))
        return compare
    if name not in _FLOAT_NAMES or (flush and kind in ("f64", "bf16", "bf16x2")):
        raise Unsupported
    decode, relation = _decoded(kind, flush), _float_comparison(name)
    return lambda a, b: relation(decode(a), decode(b))


def setp(words: Words) -> Op:
    """Outputs p|q: the comparison and its negation, each combined with c; the low and the high half of packed types."""
    name, join = words.take(*_ANY_NAMES), words.maybe(*_COMBINE)
    flush, kind = words.flag("ftz"), words.take(*INTEGERS, *_BITS, "f32", "f64", *HALVES)
    words.end()
    compare = _comparison(name, kind, flush)
    reg = width(kind)
    combine = _COMBINE[join] if join else None
    inputs = (reg, reg, RegType.P) if combine else (reg, reg)
    # PTX has no second destination for single halves.
    count = 1 if kind in ("f16", "bf16") else 2

    def pair(a: Array, b: Array, *c: Array) -> tuple[Array, Array]:
        both = compare(halves(a), halves(b))
        low, high = both[..., 0], both[..., 1]
        return (combine(low, *c), combine(high, *c)) if combine else (low, high)

    def single(a: Array, b: Array, *c: Array) -> tuple[Array, ...]:
        result = compare(a, b)
        if count == 1:
            return (combine(result, *c) if combine else result,)
        return (combine(result, *c), combine(~result, *c)) if combine else (result, ~result)

    return Op(inputs, (RegType.P,) * count, pair if kind.endswith("x2") else single)


_TRUE = {"u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF, "f32": 0x3F800000, "u16": 0xFFFF, "s16": 0xFFFF}
_TRUE |= {"f16": 0x3C00, "f16x2": 0x3C00, "bf16": 0x3F80, "bf16x2": 0x3F80}


def set_(words: Words) -> Op:
    name, join = words.take(*_ANY_NAMES), words.maybe(*_COMBINE)
    flush, target = words.flag("ftz"), words.take(*_TRUE)
    kind = words.take(*INTEGERS, *_BITS, "f32", "f64", *HALVES)
    words.end()
    compare = _comparison(name, kind, flush)
    combine = _COMBINE[join] if join else None
    reg, out, pairs = width(kind), width(target), kind.endswith("x2")
    if (pairs and target not in ("u32", "s32", kind)) or (target.endswith("x2") and target != kind):
        raise Unsupported
    element = np.dtype(np.uint16) if pairs else out.dtype
    true = element.type(0xFFFF if pairs and target in ("u32", "s32") else _TRUE[target])

    def kernel(a: Array, b: Array, *c: Array) -> Array:
        held = compare(halves(a), halves(b)) if pairs else compare(a, b)
        if combine:
            held = combine(held, c[0][..., None] if pairs else c[0])
        result = np.where(held, true, element.type(0))
        return joined(result) if pairs else result

    inputs = (reg, reg, RegType.P) if combine else (reg, reg)
    return operation(inputs, out, kernel)


# --- least and greatest ----------------------------------------------------------------------------------------------


def _extreme(form: Format, greatest: bool, propagate: bool) -> Kernel:
    """The number of two where one is NaN, or NaN with `propagate`; negative zero lies below zero."""
    choose: Kernel = np.fmax if greatest else np.fmin
    zeros: Kernel = np.bitwise_and if greatest else np.bitwise_or
    nan = form.reg.dtype.type(form.nan)

    def kernel(a: Array, b: Array) -> Array:
        x, y = form.decode(a), form.decode(b)
        chosen = choose(x, y)
        bits = form.encode(chosen)
        nothing = chosen == 0
        if nothing.any():
            bits = np.where(nothing & (x == y), zeros(a, b), bits)
        none = chosen != chosen
        if propagate:
            none = none | (x != x) | (y != y)
        return np.where(none, nan, bits) if none.any() else bits

    return kernel


def _of_magnitudes(form: Format, kernel: Kernel) -> Kernel:
    """`.xorsign.abs`: of the sizes, with the product's sign."""
    nan = form.reg.dtype.type(form.nan)

    def run(a: Array, b: Array) -> Array:
        chosen = kernel(a & ~form.sign, b & ~form.sign)
        return np.where(chosen == nan, nan, chosen | ((a ^ b) & form.sign))

    return run


def _choose(greatest: bool) -> Callable[[Words], Op]:
    def build(words: Words) -> Op:
        flush, propagate, magnitude = words.flag("ftz"), words.flag("NaN"), words.flag("xorsign")
        if magnitude:
            words.take("abs")
        kind = words.take("f32", "f64", *HALVES)
        words.end()
        form = {"f32": F32, "f64": F64}.get(kind) or half_format(kind)
        if (form is F64 and (flush or propagate or magnitude)) or (form is BF16 and flush):
            raise Unsupported
        kernel = _extreme(form, greatest, propagate)
        if magnitude:
            kernel = _of_magnitudes(form, kernel)
        if flush:
            bare, flush_one = kernel, flushed if form is F32 else flushed_half
            kernel = lambda a, b: bare(flush_one(a), flush_one(b))  # noqa: E731
        return operation((width(kind),) * 2, width(kind), each_half(kind, kernel))

    return build


FAMILY: Family = {
    "setp": setp,
    "set": set_,
    "min": _choose(False),
    "max": _choose(True),
}
