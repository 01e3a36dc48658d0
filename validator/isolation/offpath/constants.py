"""Constants as AST nodes, and the operations on them that can be carried out without running anything."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

__all__ = [
    "UNKNOWN",
    "Literal",
    "call",
    "compare",
    "constant",
    "empty_display",
    "is_constant",
    "is_small",
    "name_of",
    "negate",
    "truth",
    "value_of",
]

Literal = str | bool | int | float | bytes | None

UNKNOWN: Final = object()
"""Result of an operation that is not carried out."""

_MAX = 4096
"""Longest string or tuple an operation may make."""


def constant(value: Any, at: ast.AST) -> ast.expr:
    """A constant at the place of `at`. Tuples become tuples of constants."""
    node: ast.expr
    if isinstance(value, tuple):
        node = ast.Tuple(elts=[constant(v, at) for v in value], ctx=ast.Load())
    else:
        node = ast.Constant(value=value)
    return ast.copy_location(node, at)


def is_small(node: ast.AST, most: int = 64) -> bool:
    """Whether the node has few parts: what is put in the place of names may otherwise double with every name."""
    todo, seen = [node], 0
    while todo and seen <= most:
        seen += 1
        todo.extend(ast.iter_child_nodes(todo.pop()))
    return seen <= most


def is_constant(node: ast.AST | None) -> bool:
    """A constant, or a tuple of constants."""
    if isinstance(node, ast.Constant):
        return True
    return isinstance(node, ast.Tuple) and all(map(is_constant, node.elts))


def empty_display(node: ast.AST | None) -> ast.expr | None:
    """The display that stands for an empty list, dictionary or set, however it is made; None: it is none."""
    match node:
        case ast.List(elts=[]) | ast.Dict(keys=[], values=[]):
            return node
        case ast.Call(func=ast.Name(id="list"), args=[], keywords=[]):
            return ast.copy_location(ast.List(elts=[], ctx=ast.Load()), node)
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=[]):
            return ast.copy_location(ast.Dict(keys=[], values=[]), node)
        case ast.Call(func=ast.Name(id="set" | "frozenset"), args=[], keywords=[]):
            return node
    return None


def value_of(node: ast.AST | None) -> Any:
    """The constant's value; `UNKNOWN` when it is none. Displays of constants count as tuples (for `in`)."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple):
        values = tuple(map(value_of, node.elts))
        return UNKNOWN if any(v is UNKNOWN for v in values) else values
    return UNKNOWN


def name_of(node: ast.AST | None) -> str:
    """`a.b.c` of a name or attribute chain; empty when it is neither."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def truth(node: ast.expr) -> bool | None:
    """Whether the expression is true, None when that is unknown."""
    if is_constant(node):
        return bool(value_of(node))
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        if not node.elts:
            return False
        return True if any(not isinstance(e, ast.Starred) for e in node.elts) else None
    if isinstance(node, ast.Dict):
        return bool(node.keys) if all(node.keys) else None
    return True if isinstance(node, ast.Lambda) else None


_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: lambda a, b: a is b if a is None or b is None or isinstance(a, bool) or isinstance(b, bool) else UNKNOWN,
    ast.IsNot: lambda a, b: (
        a is not b if a is None or b is None or isinstance(a, bool) or isinstance(b, bool) else UNKNOWN
    ),
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


def compare(left: Any, op: ast.cmpop, right: Any) -> Any:
    """`left op right`, `UNKNOWN` where it raises."""
    try:
        return _COMPARE[type(op)](left, right)
    except (TypeError, ValueError):
        return UNKNOWN


_METHODS: Final = frozenset({"lower", "upper", "strip", "startswith", "endswith", "split", "casefold", "isdigit"})
_BUILTINS: Final[dict[str, Callable[..., Any]]] = {
    "bool": bool, "int": int, "float": float, "str": str, "len": len, "any": any, "all": all, "tuple": tuple,
}  # fmt: skip


def call(function: ast.expr, args: Sequence[ast.expr]) -> Any:
    """A builtin or a string method on constants; `UNKNOWN` for everything else and where it raises."""
    values = [value_of(a) for a in args]
    if any(v is UNKNOWN for v in values):
        return UNKNOWN
    try:
        if isinstance(function, ast.Name) and function.id in _BUILTINS and len(values) <= 1:
            result = _BUILTINS[function.id](*values)
        elif isinstance(function, ast.Attribute) and function.attr in _METHODS:
            receiver = value_of(function.value)
            if not isinstance(receiver, str):
                return UNKNOWN
            result = getattr(receiver, function.attr)(*values)
        else:
            return UNKNOWN
    except (TypeError, ValueError, OverflowError):
        return UNKNOWN
    result = tuple(result) if isinstance(result, list) else result
    return UNKNOWN if isinstance(result, str | tuple) and len(result) > _MAX else result


def negate(node: ast.expr) -> ast.expr:
    """`not node`, with comparisons turned round."""
    opposite: dict[type[ast.cmpop], type[ast.cmpop]] = {
        ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    }  # fmt: skip
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in opposite:
        return ast.copy_location(
            ast.Compare(left=node.left, ops=[opposite[type(node.ops[0])]()], comparators=node.comparators), node
        )
    known = truth(node)
    if known is not None and is_constant(node):
        return constant(not known, node)
    return ast.copy_location(ast.UnaryOp(op=ast.Not(), operand=node), node)
