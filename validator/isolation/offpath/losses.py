"""What a branch that never runs still means: its bindings make a name local, its `yield` makes a generator.

Python decides both when it compiles a function, whatever runs later. Where partial evaluation removes the last such
statement, a mark takes its place, so that the loss is a difference.
"""

from __future__ import annotations

import ast
from typing import Final

from validator.isolation.offpath.scopes import bindings, parameters, walk_scope
from validator.isolation.syntax import parts, walk

__all__ = ["MARK", "losses"]

MARK: Final = "validator:"
"""How the text of a mark starts."""


def losses(before: list[ast.stmt], after: list[ast.stmt], args: ast.arguments | None = None) -> list[ast.stmt]:
    """Marks for names that nothing binds any more but something still reads, and for lost generators."""
    bound: dict[str, ast.AST] = {}
    for name, node in bindings(before):
        bound.setdefault(name, node)
    kept = {name for name, _ in bindings(after)} | set(parameters(args) if args else ())
    shared = {n for s in before for g in walk(s) if isinstance(g, ast.Global | ast.Nonlocal) for n in g.names}
    missing = set(bound) - kept - shared
    read = _reads(after, missing, module=args is None) if missing else set()
    marks = [
        _mark(bound[name], f"`{name}` is bound only where the switch is on, and read where it is off")
        for name in sorted(read)
    ]
    generator = _yield(before) if args is not None else None
    if generator is not None and _yield(after) is None:
        marks.append(_mark(generator, "the function is a generator, although no `yield` is left"))
    return marks


def _reads(body: list[ast.stmt], names: set[str], *, module: bool) -> set[str]:
    """Which of the names are read. With postponed annotations, a module's annotations read nothing."""
    postponed = module and any(isinstance(s, ast.ImportFrom) and s.module == "__future__" for s in body)
    found: set[str] = set()
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
            found.add(node.id)
        skipped: list[ast.AST] = []
        if postponed:
            skipped = [a for f in ("annotation", "returns") if isinstance(a := getattr(node, f, None), ast.AST)]
        todo += [c for c in parts(node) if c not in skipped]
    return found


def _yield(body: list[ast.stmt]) -> ast.AST | None:
    return next((n for n in walk_scope(body) if isinstance(n, ast.Yield | ast.YieldFrom)), None)


def _mark(at: ast.AST, text: str) -> ast.stmt:
    return ast.copy_location(ast.Expr(value=ast.copy_location(ast.Constant(value=f"{MARK} {text}"), at)), at)
