"""Arithmetic on one number per thread, in numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from validator.ordering.program import Op

__all__ = ["RULES", "Vector", "as_numbers", "compared", "lut", "ones", "signed", "wrap"]

Vector = npt.NDArray[np.int64]
"""One 64-bit number per thread; narrower results are kept unsigned."""


def as_numbers(bits: npt.NDArray[np.bool_]) -> Vector:
    return bits.astype(np.int64)


def wrap(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def ones(width: int) -> np.int64:
    return np.int64(-1) if width >= 64 else np.int64((1 << max(width, 1)) - 1)


def signed(value: Vector, width: int) -> Vector:
    if width >= 64:
        return value
    masked = value & ones(width)
    return masked - ((masked >> (width - 1)) << width)


def lut(table: int, v: list[Vector]) -> Vector:
    """Three-input logic: bit (a<<2 | b<<1 | c) of the table, for every bit position."""
    a, b, c = v
    result = np.zeros_like(a)
    for row in range(8):
        if table >> row & 1:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result


def _product(v: list[Vector]) -> Vector:
    result = v[0]
    for value in v[1:]:
        result = result * value
    return result


def _total(v: list[Vector]) -> Vector:
    result = v[0]
    for value in v[1:]:
        result = result + value
    return result


def _reduced(function: Callable[[Vector, Vector], Vector]) -> Callable[[list[Vector]], Vector]:
    def apply(v: list[Vector]) -> Vector:
        result = v[0]
        for value in v[1:]:
            result = function(result, value)
        return result

    return apply


RULES: dict[Op, Callable[[list[Vector]], Vector]] = {
    Op.COPY: lambda v: v[0],
    Op.ADD: _total,
    Op.SUB: lambda v: v[0] - v[1],
    Op.MUL: _product,
    Op.SHL: lambda v: np.where(v[1] < 63, v[0] << np.clip(v[1], 0, 62), 0),
    Op.AND: _reduced(np.bitwise_and),
    Op.OR: _reduced(np.bitwise_or),
    Op.XOR: _reduced(np.bitwise_xor),
    Op.NOT: lambda v: ~v[0],
    Op.NEG: lambda v: -v[0],
    Op.MIN: _reduced(np.minimum),
    Op.MAX: _reduced(np.maximum),
    Op.DIV: lambda v: v[0] // np.where(v[1] == 0, 1, v[1]),
    Op.REM: lambda v: v[0] % np.where(v[1] == 0, 1, v[1]),
}

_RELATIONS: dict[str, Callable[[Vector, Vector], npt.NDArray[np.bool_]]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def compared(attr: object, v: list[Vector]) -> Vector | None:
    if not isinstance(attr, tuple) or str(attr[0]) not in _RELATIONS or len(v) < 2:
        return None
    is_signed = bool(attr[1]) if len(attr) > 1 else True
    # The compared width is not said: values that fit 32 bits, signed or not, are compared as 32-bit numbers.
    a, b = v[0], v[1]
    if all(((x >= -(1 << 31)) & (x < 1 << 32)).all() for x in (a, b)):
        a, b = (signed(a, 32), signed(b, 32)) if is_signed else (a & ones(32), b & ones(32))
    elif not is_signed:
        return _with_third(_RELATIONS[str(attr[0])](a.view(np.uint64), b.view(np.uint64)), attr, v)
    return _with_third(_RELATIONS[str(attr[0])](a, b), attr, v)


def _with_third(result: npt.NDArray[np.bool_], attr: tuple[object, ...], v: list[Vector]) -> Vector:
    """A comparison may be combined with another predicate."""
    if len(v) > 2 and len(attr) > 2:
        other = v[2] != 0
        result = {"and": result & other, "or": result | other, "xor": result ^ other}.get(str(attr[2]), result)
    return as_numbers(result)
