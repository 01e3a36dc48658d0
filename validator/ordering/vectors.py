"""Arithmetic on one number per thread (or per sample of one), in numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from validator.ordering.program import Op, Operation

__all__ = ["Vector", "as_numbers", "computed", "wrap"]

Vector = npt.NDArray[np.int64]
"""One 64-bit number per thread; narrower results are kept unsigned."""


def computed(operation: Operation, v: list[Vector]) -> Vector | None:
    """The result of an operation on known operands, None when the operation is not arithmetic."""
    op, width = operation.op, operation.width
    if op is Op.COMPARE:
        return _compared(operation.attr, v)
    if op is Op.SELECT:
        return np.where(v[2] != 0, v[0], v[1])
    if op is Op.EXTRACT and isinstance(operation.attr, tuple):
        low, bits = int(operation.attr[0]), int(operation.attr[1])
        return (v[0] >> min(low, 63)) & _ones(bits)
    if op is Op.PACK:
        part = max(1, width // len(v))
        total = np.zeros_like(v[0])
        for number, value in enumerate(v):
            if part * number < 64:
                total |= (value & _ones(part)) << (part * number)
        return total
    if op is Op.LOP3 and isinstance(operation.attr, int) and len(v) == 3:
        return _lut(operation.attr, v) & _ones(width)
    if op is Op.SHR:
        shift = np.clip(v[1], 0, 63)
        if operation.attr == "s":
            return (_signed(v[0], width) >> shift) & _ones(width)
        return ((v[0] & _ones(width)).view(np.uint64) >> shift.astype(np.uint64)).view(np.int64)
    rule = _RULES.get(op)
    if rule is None:
        return None
    operands = _with_signs(operation, v)
    return rule(operands) & _ones(width)


def _with_signs(operation: Operation, v: list[Vector]) -> list[Vector]:
    """Operands as the signed numbers that an operation takes them for."""
    op, attr, width = operation.op, operation.attr, operation.width
    if op is Op.COPY and isinstance(attr, str) and attr[:1] == "s" and attr[1:].isdigit():
        return [_signed(v[0], int(attr[1:]))]
    if attr != "s":
        return v
    return [_signed(value, width // 2 if op is Op.MUL else width) for value in v]


def as_numbers(bits: npt.NDArray[np.bool_]) -> Vector:
    return bits.astype(np.int64)


def wrap(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _ones(width: int) -> np.int64:
    return np.int64(-1) if width >= 64 else np.int64((1 << max(width, 1)) - 1)


def _signed(value: Vector, width: int) -> Vector:
    if width >= 64:
        return value
    masked = value & _ones(width)
    return masked - ((masked >> (width - 1)) << width)


def _lut(table: int, v: list[Vector]) -> Vector:
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


def _quotient(a: Vector, b: Vector) -> Vector:
    """Towards zero, as the machine divides; anything where the divisor is 0."""
    with np.errstate(all="ignore"):
        magnitude = np.abs(a) // np.where(b == 0, 1, np.abs(b))
    return np.where((a < 0) != (b < 0), -magnitude, magnitude)


def _reduced(function: Callable[[Vector, Vector], Vector]) -> Callable[[list[Vector]], Vector]:
    def apply(v: list[Vector]) -> Vector:
        result = v[0]
        for value in v[1:]:
            result = function(result, value)
        return result

    return apply


_RULES: dict[Op, Callable[[list[Vector]], Vector]] = {
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
    Op.DIV: lambda v: _quotient(v[0], v[1]),
    Op.REM: lambda v: v[0] - _quotient(v[0], v[1]) * v[1],
}

_RELATIONS: dict[str, Callable[[Vector, Vector], npt.NDArray[np.bool_]]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def _compared(attr: object, v: list[Vector]) -> Vector | None:
    if not isinstance(attr, tuple) or str(attr[0]) not in _RELATIONS or len(v) < 2:
        return None
    is_signed = bool(attr[1]) if len(attr) > 1 else True
    # The compared width is not said: values that fit 32 bits, signed or not, are compared as 32-bit numbers.
    a, b = v[0], v[1]
    if all(((x >= -(1 << 31)) & (x < 1 << 32)).all() for x in (a, b)):
        a, b = (_signed(a, 32), _signed(b, 32)) if is_signed else (a & _ones(32), b & _ones(32))
    elif not is_signed:
        return _with_third(_RELATIONS[str(attr[0])](a.view(np.uint64), b.view(np.uint64)), attr, v)
    return _with_third(_RELATIONS[str(attr[0])](a, b), attr, v)


def _with_third(result: npt.NDArray[np.bool_], attr: tuple[object, ...], v: list[Vector]) -> Vector:
    """A comparison may be combined with another predicate."""
    if len(v) > 2 and len(attr) > 2:
        other = v[2] != 0
        result = {"and": result & other, "or": result | other, "xor": result ^ other}.get(str(attr[2]), result)
    return as_numbers(result)
