"""Symbolic dimensions: the small language in which a contract says how big things are.

    T in 0..512          a range, both ends included
    H in {1, 2, 3}       a set
    H % 128 == 0         any comparison of integer expressions over names and numbers (+ - * // % min max ceil_div)

The text is untrusted: it is parsed into a checked tree and interpreted here, never evaluated by Python.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

__all__ = ["Constraint", "Expression", "Membership", "parse_constraint", "parse_expression"]

MOST = 4096
"""Sizes that a set may list."""
LONGEST = 200
"""Characters of one expression; also bounds how deep the parser can nest."""
LARGEST = 1 << 48
"""No value, literal or intermediate may leave ±this."""

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CALLS: dict[str, Callable[..., int]] = {"min": min, "max": max, "ceil_div": lambda a, b: -(-a // b)}
_RANGE = re.compile(r"\s*([A-Za-z_]\w*)\s+in\s+(-?\d+)\s*\.\.\s*(-?\d+)\s*")
_SET = re.compile(r"\s*([A-Za-z_]\w*)\s+in\s+\{\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*,?\s*\}\s*")


@dataclass(frozen=True, slots=True)
class Expression:
    """An integer expression over dimensions."""

    text: str
    tree: ast.expr
    names: frozenset[str]

    def value(self, dims: Mapping[str, int]) -> int:
        """Raises `ArithmeticError` on division by zero or beyond ±2^48, `KeyError` on a name without a value."""
        return _value(self.tree, dims)


@dataclass(frozen=True, slots=True)
class Membership:
    """`T in 0..512` or `H in {1, 2, 3}`: what a dimension may be before any other constraint."""

    text: str
    name: str
    values: range | tuple[int, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.name})

    def holds(self, dims: Mapping[str, int]) -> bool:
        return dims[self.name] in self.values


@dataclass(frozen=True, slots=True)
class Constraint:
    """A comparison, chained comparisons included (`1 <= H <= T`)."""

    text: str
    terms: tuple[Expression, ...]
    operators: tuple[type[ast.cmpop], ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(t.names for t in self.terms))

    def holds(self, dims: Mapping[str, int]) -> bool:
        """False too where the arithmetic fails: a size that cannot be computed is no size."""
        try:
            values = [t.value(dims) for t in self.terms]
        except ArithmeticError:
            return False
        return all(_COMPARE[op](a, b) for op, a, b in zip(self.operators, values, values[1:], strict=False))


def parse_expression(text: str | int) -> Expression:
    """An integer expression. Raises `ValueError` that says what is not understood."""
    return _expression(str(text))


@lru_cache(maxsize=1024)
def _expression(text: str) -> Expression:
    """Read once: the search for sizes asks for the same few hundred thousand times."""
    tree = _parse(text)
    return Expression(text, tree, _check(tree))


def parse_constraint(text: str) -> Constraint | Membership:
    """One entry of `dims`. Raises `ValueError` that says what is not understood."""
    if match := _RANGE.fullmatch(text):
        low, high = int(match[2]), int(match[3])
        if not 0 <= low <= high <= LARGEST:
            raise ValueError(f"range in {text!r} must be 0 or more and ascending")
        return Membership(text, match[1], range(low, high + 1))
    if match := _SET.fullmatch(text):
        values = tuple(sorted({int(v) for v in match[2].split(",")}))
        if len(values) > MOST:
            raise ValueError(f"{match[1]} lists {len(values)} sizes, at most {MOST} are allowed; give a range")
        if not 0 <= values[0] <= values[-1] <= LARGEST:
            raise ValueError(f"sizes in {text!r} must be 0 or more")
        return Membership(text, match[1], values)
    tree = _parse(text)
    if not isinstance(tree, ast.Compare) or not all(type(op) in _COMPARE for op in tree.ops):
        raise ValueError(f"{text!r} is neither `NAME in LOW..HIGH`, `NAME in {{A, B}}` nor a comparison")
    parts = [tree.left, *tree.comparators]
    terms = tuple(Expression(ast.unparse(p), p, _check(p)) for p in parts)
    return Constraint(text, terms, tuple(type(op) for op in tree.ops))


def _parse(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise ValueError(f"expression of {len(text)} characters, {LONGEST} are allowed")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ValueError(f"{text!r} is not an expression") from error


def _check(node: ast.expr) -> frozenset[str]:
    """The names used; raises on anything that is not integer arithmetic."""
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool) and abs(number) <= LARGEST:
            return frozenset()
        case ast.Name(id=name):
            return frozenset({name})
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _check(inner)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _check(left) | _check(right)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS and len(args) == 2:
            return _check(args[0]) | _check(args[1])
        case _:
            raise ValueError(f"`{ast.unparse(node)}` is not integer arithmetic (+ - * // % min max ceil_div)")


def _value(node: ast.expr, dims: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=number):
            return cast(int, number)
        case ast.Name(id=name):
            return dims[name]
        case ast.UnaryOp(operand=inner):
            return -_value(inner, dims)
        case ast.BinOp(left=left, op=op, right=right):
            result = _BINARY[type(op)](_value(left, dims), _value(right, dims))
        case ast.Call(func=ast.Name(id=name), args=args):
            result = _CALLS[name](*(_value(a, dims) for a in args))
        case _:
            raise AssertionError("checked when parsed")
    if abs(result) > LARGEST:
        raise OverflowError("size beyond 2^48")
    return result
