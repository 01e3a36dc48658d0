"""What a new test file does to the tests of other files, seen in its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from validator.gate.edits import Edit, first_line, imported, parse

__all__ = ["reaches_others"]


def reaches_others(new: bytes) -> tuple[Edit, ...]:
    """What a new test file does to the tests of other files by being imported; nothing for one that cannot be parsed.

    Functions put in place of a library's, and plugins for the whole run. A library's settings (`= True`) are not meant.
    """
    module = parse(new)
    if module is None:
        return ()
    bound = {name for node in ast.walk(module) for name in _imports(node)}
    return tuple(
        Edit(f"{first_line(node)} {reason}", node.lineno)
        for node in _at_import(module.body)
        if (reason := _outside(node, bound))
    )


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from imported(node)


def _at_import(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when the file is imported, inside conditions and loops too."""
    waiting = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            blocks = (getattr(node, name, ()) for name in ("body", "orelse", "finalbody", "handlers"))
            inner = [part for block in blocks for part in block]
            nested = [s for part in inner for s in (part.body if isinstance(part, ast.ExceptHandler) else [part])]
            waiting += reversed(nested)


def _outside(node: ast.stmt, bound: Collection[str]) -> str:
    match node:
        case ast.Assign(targets=targets, value=value):
            if any(isinstance(t, ast.Name) and t.id == "pytest_plugins" for t in targets):
                return "loads plugins for the whole run"
            reached = any(_root(t) in bound for t in targets if isinstance(t, ast.Attribute | ast.Subscript))
            return "replaces what others use" if reached and not _is_setting(value) else ""
        case ast.Expr(value=ast.Call(func=ast.Name(id="setattr"), args=[first, _, value])):
            return "replaces what others use" if _root(first) in bound and not _is_setting(value) else ""
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Call(func=patch), attr="start"))):
            return "replaces what others use" if "patch" in ast.unparse(patch).split(".") else ""
    return ""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


_SETTING = (
    *(ast.Constant, ast.UnaryOp, ast.Tuple, ast.List, ast.JoinedStr),
    *(ast.expr_context, ast.unaryop),
)


def _is_setting(value: ast.expr) -> bool:
    """A number, a text, a flag: a setting, not something that is called."""
    return all(isinstance(node, _SETTING) for node in ast.walk(value))
