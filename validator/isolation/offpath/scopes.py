"""Which names a function or module binds, and how often: what may be propagated and what may not."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from validator.isolation.syntax import parts, walk

__all__ = [
    "FunctionNode",
    "Scope",
    "annotations_of",
    "bindings",
    "bound_names",
    "functions_of",
    "parameters",
    "walk_scope",
]

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_NEW_SCOPE = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Scope:
    """Names of one function (or of a module's or class's top level)."""

    bindings: Counter[str] = field(default_factory=Counter)
    """Name → number of places that bind it (a parameter is one)."""
    shared: frozenset[str] = frozenset()
    """Names declared `global` or `nonlocal` here or in a nested function: another scope may rebind them."""
    dynamic: bool = False
    """Calls `locals`, `vars`, `exec` or `eval`: any name may be read by its text."""

    @classmethod
    def of(cls, body: list[ast.stmt], arguments: ast.arguments | None = None) -> Scope:
        """The names that these statements bind in their own scope."""
        bindings = Counter(bound_names(body))
        bindings.update(parameters(arguments) if arguments else ())
        shared: set[str] = set()
        dynamic = False
        for statement in body:
            for node in walk(statement):
                if isinstance(node, ast.Global | ast.Nonlocal):
                    shared.update(node.names)
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    dynamic |= node.func.id in ("locals", "vars", "exec", "eval")
        return cls(bindings, frozenset(shared), dynamic)


def parameters(arguments: ast.arguments) -> list[str]:
    """All parameter names."""
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [a.arg for a in every if a]


def functions_of(module: ast.Module | None) -> dict[str, FunctionNode]:
    """Qualified name → function, for the module's functions and its classes' methods (the last definition wins)."""
    found: dict[str, FunctionNode] = {}
    for node in module.body if module else []:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                    found[f"{node.name}.{item.name}"] = item
    return found


def annotations_of(body: list[ast.stmt]) -> Iterator[ast.expr]:
    """Annotations that running these statements evaluates, were they not postponed."""
    for node in walk_scope(body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            a = node.args
            every = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
            yield from (one.annotation for one in every if one and one.annotation)
            if node.returns:
                yield node.returns
        elif isinstance(node, ast.ClassDef):
            yield from annotations_of(node.body)
        elif isinstance(node, ast.AnnAssign):
            yield node.annotation


def walk_scope(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Every node of these statements that belongs to their own scope (decorators, defaults and bases included)."""
    todo: list[ast.AST] = list(reversed(body))
    while todo:
        node = todo.pop()
        yield node
        if type(node) is ast.Name or type(node) is ast.Constant:
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner: list[ast.AST] = [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d)]
        elif isinstance(node, ast.ClassDef):
            inner = [*node.decorator_list, *node.bases, *(k.value for k in node.keywords)]
        elif isinstance(node, ast.Lambda):
            inner = []
        else:
            inner = parts(node)
        inner.reverse()
        todo += inner


_BINDING = frozenset({
    ast.Name, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.ExceptHandler,
    ast.MatchAs, ast.MatchStar, ast.MatchMapping,
})  # fmt: skip
"""Nodes that may bind a name: most are none, and are passed over at once."""


def bound_names(body: list[ast.stmt]) -> Iterator[str]:
    """Names that these statements bind in their own scope, once for each place."""
    return (name for name, _ in bindings(body))


def bindings(body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """(name, the node that binds it) in the statements' own scope."""
    for node in walk_scope(body):
        if type(node) not in _BINDING:
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name, node
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node
            case ast.Import(names=names):
                yield from ((a.asname or a.name.split(".")[0], a) for a in names)
            case ast.ImportFrom(names=names):
                yield from ((a.asname or a.name, a) for a in names)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, node
            case ast.MatchMapping(rest=str(name)):
                yield name, node
