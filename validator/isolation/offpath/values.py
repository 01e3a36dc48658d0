"""What an expression of constants gives, worked out within bounds; and whether it surely is an error."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

from validator.isolation.offpath.constants import UNKNOWN

__all__ = ["FAILS", "worked_out"]

FAILS: Final = object()
"""Evaluating it raises an error."""

_LARGEST: Final = 1 << 80
_LONGEST: Final = 4096
_FLAT: Final = (int, float, complex, str, bytes, type(None))
_Known = Callable[[ast.expr], Any]
_OPERATIONS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor,
}  # fmt: skip


_MOST: Final = 10_000
"""Parts looked at for one value: a few lines of names that stand for names may come to millions."""


class _TooMuch(Exception):
    """More parts than that."""


def worked_out(node: ast.expr, known: _Known) -> Any:
    """The value of an expression of constants, tuples, lists, dictionaries and names that `known` has a display for.

    `UNKNOWN`: it is something else, or large. `FAILS`: it is an error.
    """
    try:
        return _Work(known).value(node)
    except _TooMuch:
        return UNKNOWN


class _Work:
    """Works one value out."""

    def __init__(self, known: _Known) -> None:
        self.known, self.left = known, _MOST

    def value(self, node: ast.expr) -> Any:
        """As `worked_out`."""
        self.left -= 1
        if self.left < 0:
            raise _TooMuch
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                values = [self.value(e) for e in elements]
                kind = tuple if isinstance(node, ast.Tuple) else list
                return _first_bad(values) or kind(values)
            case ast.Dict(keys=keys, values=shown) if all(keys):
                pairs = [(self.value(k), v) for k, v in zip(keys, shown, strict=True) if k is not None]
                bad = _first_bad([k for k, _ in pairs])
                return bad or _carried_out(lambda: {k: _or_unknown(self.value(v)) for k, v in pairs})
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert() as op, operand=operand):
                value = self.value(operand)
                if value is UNKNOWN or value is FAILS:
                    return value
                turn = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.inv}[type(op)]
                return _carried_out(lambda: turn(value))  # type: ignore[operator]  # of whatever type the constant is
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                a, b = self.value(left), self.value(right)
                if (bad := _first_bad([a, b])) is not None:
                    return bad
                return UNKNOWN if _may_be_large(a, op, b) else _carried_out(lambda: _OPERATIONS[type(op)](a, b))
            case ast.Subscript(value=owner, slice=index) if not isinstance(index, ast.Slice):
                held, key = self.value(owner), self.value(index)
                if (bad := _first_bad([held, key])) is not None:
                    return bad
                return _carried_out(lambda: held[key])
            case ast.JoinedStr(values=shown):
                plain = [v.value if isinstance(v, ast.FormattedValue) and v.format_spec is None else v for v in shown]
                values = [self.value(v) for v in plain]
                return _first_bad(values) or _carried_out(lambda: "".join(map(str, values)))
            case ast.Name() | ast.Attribute():
                shown = self.known(node)
                return UNKNOWN if shown is None else self.value(shown)
        return UNKNOWN


def _or_unknown(value: Any) -> Any:
    return UNKNOWN if value is FAILS else value


def _first_bad(values: list[Any]) -> Any:
    """`FAILS` or `UNKNOWN` where one is among them; None: all are values."""
    if any(value is FAILS for value in values):
        return FAILS
    return UNKNOWN if any(value is UNKNOWN for value in values) else None


def _carried_out(step: Callable[[], Any]) -> Any:
    try:
        result = step()
    except (ArithmeticError, TypeError, ValueError, LookupError):
        return FAILS
    long = isinstance(result, str | bytes | tuple | list | dict) and len(result) > _LONGEST
    return UNKNOWN if long or (isinstance(result, int) and abs(result) > _LARGEST) else result


def _may_be_large(left: Any, op: ast.operator, right: Any) -> bool:
    """Whether working it out could take long."""
    if isinstance(op, ast.Pow | ast.LShift):
        return not (isinstance(right, int) and isinstance(left, int) and 0 <= right <= 64)
    if isinstance(op, ast.Mod):
        return isinstance(left, str | bytes)
    if isinstance(op, ast.Mult):
        nested = (e for v in (left, right) if isinstance(v, tuple | list) for e in v if not isinstance(e, _FLAT))
        if next(nested, None) is not None:
            return True  # its length does not tell how much it holds
        counts = [v for v in (left, right) if isinstance(v, int)]
        sized = [len(v) for v in (left, right) if isinstance(v, str | bytes | tuple | list)]
        return bool(sized) and bool(counts) and abs(counts[0]) * max(sized[0], 1) > _LONGEST
    return False
