"""`:=` that is evaluated before everything else in a condition: taken out, it is an assignment of its own."""

from __future__ import annotations

import ast

from validator.isolation.offpath.nodes import with_fields

__all__ = ["leading_walrus", "without_walrus"]


def leading_walrus(node: ast.expr) -> ast.NamedExpr | None:
    """The `:=` that is evaluated before everything else in the expression."""
    while True:
        match node:
            case ast.NamedExpr():
                return node
            case ast.BoolOp(values=[first, *_]):
                node = first
            case (
                ast.Compare(left=first) | ast.UnaryOp(operand=first) | ast.Attribute(value=first) | ast.Call(func=first)
            ):
                node = first
            case _:
                return None


def without_walrus(node: ast.expr) -> ast.expr:
    """The expression with its leading `:=` replaced by the name."""
    match node:
        case ast.NamedExpr(target=target):
            return ast.copy_location(ast.Name(id=target.id, ctx=ast.Load()), node)
        case ast.BoolOp(values=[first, *rest]):
            return with_fields(node, values=[without_walrus(first), *rest])
        case ast.Compare(left=first):
            return with_fields(node, left=without_walrus(first))
        case ast.UnaryOp(operand=first):
            return with_fields(node, operand=without_walrus(first))
        case ast.Attribute(value=first):
            return with_fields(node, value=without_walrus(first))
        case ast.Call(func=first):
            return with_fields(node, func=without_walrus(first))
    return node
