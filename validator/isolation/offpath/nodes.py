"""Copies of AST nodes that keep their place, and remember the branch that they were taken out of."""

from __future__ import annotations

import ast
from itertools import accumulate
from typing import TypeVar

from validator.isolation.syntax import walk

__all__ = [
    "Origin",
    "binds_names",
    "clone",
    "inert",
    "is_stub",
    "mark_origin",
    "origin_of",
    "put",
    "ranks",
    "stub",
    "with_fields",
]

_Node = TypeVar("_Node", bound=ast.AST)

Origin = tuple[int, int]
"""Line of an `if` whose condition is decided, and how many statements its branch left."""


def with_fields(node: _Node, **fields: object) -> _Node:
    """The node with some fields replaced."""
    values = dict(ast.iter_fields(node))
    values.update(fields)
    return _at(type(node)(**values), node)


def clone(node: _Node) -> _Node:
    """A deep copy."""
    fields: dict[str, object] = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            fields[name] = clone(value)
        elif isinstance(value, list):
            fields[name] = [clone(v) if isinstance(v, ast.AST) else v for v in value]
        else:
            fields[name] = value
    return _at(type(node)(**fields), node)


_BINDING = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)


def binds_names(node: ast.expr) -> bool:
    """Whether names in the expression may be its own."""
    return any(isinstance(part, _BINDING) for part in walk(node))


def put(node: ast.expr, name: str, value: ast.expr) -> ast.expr:
    """A copy with a value in the place of a name; the expression must bind no names."""
    copied = _Put(name, value).visit(clone(node))
    assert isinstance(copied, ast.expr)
    return copied


class _Put(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.expr) -> None:
        self.name = name
        self.value = value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(clone(self.value), node) if node.id == self.name else node


def _at(new: _Node, old: ast.AST) -> _Node:
    ast.copy_location(new, old)
    origin = origin_of(old)
    if origin is not None:
        new.origin = origin  # type: ignore[attr-defined]  # ours
    return new


def stub(node: _Node) -> _Node:
    """A definition of the same name, place and header that nothing has to look into."""
    short = with_fields(node, body=[])
    short.is_stub = True  # type: ignore[attr-defined]  # ours
    return short


def inert(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether making the function runs nothing but the making."""
    defaults = [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]
    return not node.decorator_list and all(isinstance(d, ast.Constant) for d in defaults)


def is_stub(node: ast.AST) -> bool:
    """Whether the definition stands for one that is the same on both sides."""
    return getattr(node, "is_stub", False)


def mark_origin(body: list[ast.stmt], line: int) -> list[ast.stmt]:
    """Note on each statement that it was the branch of the `if` at this line; an outer `if` does not replace it."""
    for statement in body:
        if origin_of(statement) is None:
            statement.origin = (line, len(body))  # type: ignore[attr-defined]  # ours
    return body


def origin_of(node: ast.AST) -> Origin | None:
    """The branch that a statement was taken out of."""
    return getattr(node, "origin", None)


def ranks(body: list[ast.stmt]) -> list[int]:
    """How many statements that may do something stand before each one."""
    return list(accumulate((not isinstance(s, ast.Import | ast.ImportFrom) and _acts(s) for s in body), initial=0))[:-1]


def _acts(node: ast.stmt) -> bool:
    if isinstance(node, ast.ClassDef):
        return bool(node.decorator_list or node.keywords) or any(map(_acts, node.body))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return not inert(node)
    plain = isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr | ast.Pass)
    value = getattr(node, "value", None)
    reads = value is not None and any(
        isinstance(n, ast.Name | ast.Call | ast.Attribute | ast.Subscript) for n in walk(value)
    )
    return not plain or reads or any(isinstance(n, ast.Call | ast.Attribute | ast.Subscript) for n in walk(node))
