"""Stores to attributes: through which class's own object, and of what."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from validator.isolation.offpath.constants import name_of
from validator.isolation.syntax import parts

__all__ = ["Store", "stores"]


@dataclass(frozen=True, slots=True)
class Store:
    """One store to an attribute."""

    path: str
    class_name: str
    """Class whose `self` (or body) it goes through; empty: some other object."""
    name: str
    value: ast.expr | None
    """None: not a plain assignment (`+=`, `del`, a loop target, `setattr`), or one whose value is not what is kept."""
    line: int


def stores(path: str, body: list[ast.stmt], class_name: str = "", self_name: str = "") -> Iterator[Store]:
    """Every store to an attribute in these statements, class bodies included."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _class_stores(path, node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from stores(path, node.body, class_name, self_name)
        else:
            yield from _statement_stores(path, node, class_name, self_name)
            for field in ("body", "orelse", "finalbody"):
                yield from stores(path, getattr(node, field, []) or [], class_name, self_name)
            for inner in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                yield from stores(path, inner.body, class_name, self_name)


def _is_remade(node: ast.ClassDef) -> bool:
    """Whether what stands in the body is not what the class has: members of enumerations, metaclasses."""
    return bool(node.keywords) or any(name_of(base).endswith(("Enum", "Flag")) for base in node.bases)


def _class_stores(path: str, node: ast.ClassDef) -> Iterator[Store]:
    remade = _is_remade(node)
    for item in node.body:
        if isinstance(item, ast.Assign | ast.AnnAssign) and item.value is not None:
            for target in item.targets if isinstance(item, ast.Assign) else [item.target]:
                if isinstance(target, ast.Name):
                    yield Store(path, node.name, target.id, None if remade else item.value, item.lineno)
        elif isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            positional = [*item.args.posonlyargs, *item.args.args]
            yield from stores(path, item.body, node.name, positional[0].arg if positional else "")
        elif isinstance(item, ast.ClassDef):
            yield from _class_stores(path, item)


def _statement_stores(path: str, node: ast.stmt, class_name: str, self_name: str) -> Iterator[Store]:
    """Stores in one statement itself."""
    plain = isinstance(node, ast.Assign | ast.AnnAssign)
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    blocks = {id(s) for f in ("body", "orelse", "finalbody") for s in getattr(node, f, []) or []}
    todo: list[ast.AST] = [node]
    direct = set(
        map(
            id,
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else [],
        )
    )
    while todo:
        part = todo.pop()
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store | ast.Del):
            own = isinstance(part.value, ast.Name) and part.value.id == self_name and bool(self_name)
            stored = value if plain and id(part) in direct else None
            if not (isinstance(node, ast.AnnAssign) and node.value is None):
                yield Store(path, class_name if own else "", part.attr, stored, part.lineno)
        todo += [c for c in parts(part) if id(c) not in blocks and not isinstance(c, ast.ExceptHandler)]
