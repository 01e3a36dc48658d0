"""Functions of shared code that change what everybody shares: `def set_mode(v): global MODE; MODE = v`.

What is stored only where it is lacking (a cache, a value made on first use) and what is put back at the end (a context)
is no change.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from validator.isolation.offpath.names import Function, Names, decorator_name
from validator.isolation.offpath.scopes import Scope, bound_names, parameters, walk_scope
from validator.isolation.syntax import unparse, walk

__all__ = ["CHANGERS", "Setters"]

CHANGERS = frozenset(
    {"setdefault", "update", "append", "insert", "extend", "add", "pop", "remove", "clear", "register", "putenv",
     "unsetenv"}
)  # fmt: skip
"""Methods that change what they are called on."""
_DEPTH = 3
"""Calls inside calls that are followed."""
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True)
class _Inside:
    """A place in a function."""

    function: Function
    local: frozenset[str]
    """Names of its own."""
    given: frozenset[str]
    """Its parameters."""
    tested: frozenset[str] = frozenset()
    """Names in the conditions around it, and in those before it that leave."""


class Setters:
    """Asks functions of one tree what they change."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._known: dict[tuple[str, str], str] = {}

    def changes(self, dotted: str) -> str:
        """What calling `package.module.function` or `package.module.Class.method` changes; empty: nothing known."""
        function = self._function(dotted)
        return self._of(function, 0) if function is not None else ""

    def _function(self, dotted: str) -> Function | None:
        parts = dotted.split(".")
        for end in (len(parts) - 1, len(parts) - 2):
            path = self.names.sources.module_path(".".join(parts[:end])) if end > 0 else None
            if path is not None:
                rest = parts[end:]
                return self.names.function(path, rest[0]) if len(rest) == 1 else self._method(path, rest[0], rest[1])
        return None

    def _method(self, path: str, owner: str, name: str, depth: int = 0) -> Function | None:
        match self.names.bindings(path).get(owner, []):
            case [ast.ClassDef(body=body)]:
                found = (s for s in body if isinstance(s, ast.FunctionDef) and s.name == name)
                return next((Function(path, node, owner) for node in found), None)
            case [ast.ImportFrom() as node] if depth < _DEPTH and (target := self.names.imported(path, node, owner)):
                return self._method(*target, name, depth + 1)
        return None

    def _of(self, function: Function, depth: int) -> str:
        key = (function.path, function.qualified)
        if key not in self._known:
            self._known[key] = ""  # for functions that call each other
            node = function.node
            scope = Scope.of(node.body, node.args)
            given = frozenset(parameters(node.args))
            imports = [n for n in walk_scope(node.body) if isinstance(n, ast.Import | ast.ImportFrom)]
            own = set(scope.bindings) - scope.shared - set(bound_names(list(imports)))
            inside = _Inside(function, frozenset(own), given)
            restored = any("contextmanager" in decorator_name(d) for d in node.decorator_list)
            isolated = self.names.sources.isolated(function.path)
            found = () if restored or isolated else self._block(node.body, inside, depth)
            self._known[key] = next(iter(found), "")
        return self._known[key]

    def _block(self, body: Sequence[ast.stmt], at: _Inside, depth: int) -> Iterator[str]:
        for node in body:
            match node:
                case ast.If(test=test, body=taken, orelse=other):
                    under = replace(at, tested=at.tested | _named(test))
                    yield from self._block([*taken, *other], under, depth)
                    at = under if isinstance(taken[-1], _LEAVES) else at
                case ast.Try(body=tried, handlers=handlers, orelse=other, finalbody=final):
                    yield from self._block([*tried, *other, *final], at, depth)
                    under = replace(at, tested=at.tested.union(*map(_named, tried)))
                    yield from (found for h in handlers for found in self._block(h.body, under, depth))
                case ast.For(body=inner) | ast.While(body=inner) | ast.With(body=inner):
                    yield from self._block(inner, at, depth)
                case ast.Assign(targets=targets, value=value):
                    yield from (found for t in targets if (found := self._stored(t, value, at)))
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    yield from [found] if (found := self._stored(target, value, at)) else []
                case ast.Expr(value=ast.Call() as call) | ast.Return(value=ast.Call() as call):
                    yield from [found] if (found := self._called(call, at, depth)) else []

    def _stored(self, target: ast.expr, value: ast.expr, at: _Inside) -> str:
        root = _root(target)
        if not root or root in at.local - ({"cls"} if _of_class(at) else set()):
            return ""
        handed = isinstance(value, ast.Name) and value.id in at.given
        made_once = root in at.tested or (root == "cls" and unparse(target).split(".")[-1] in at.tested)
        return "" if made_once and not handed else self._shown(unparse(target), at)

    def _called(self, node: ast.Call, at: _Inside, depth: int) -> str:
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in CHANGERS:
            root = _root(function.value)
            bound = self.names.bindings(at.function.path).get(root, [])
            table = root in ("os", "sys") or any(isinstance(n, ast.Assign | ast.AnnAssign) for n in bound)
            if (table and root not in at.local and root not in at.tested) or (root == "cls" and _of_class(at)):
                return self._shown(unparse(function.value), at)
        if isinstance(function, ast.Name) and function.id == "setattr" and node.args:
            root = _root(node.args[0])
            return self._shown(unparse(node.args[0]), at) if root and root not in at.local else ""
        if isinstance(function, ast.Name) and function.id not in at.local and depth < _DEPTH:
            further = self.names.function(at.function.path, function.id)
            return self._of(further, depth + 1) if further is not None else ""
        return ""

    def _shown(self, target: str, at: _Inside) -> str:
        return f"{self.names.sources.module_name(at.function.path)}: {target}"[:120]


def _of_class(at: _Inside) -> bool:
    return any(decorator_name(d) == "classmethod" for d in at.function.node.decorator_list)


def _root(node: ast.expr) -> str:
    """The name that a target, an attribute or an entry starts at."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _named(node: ast.AST) -> Set[str]:
    return {str(getattr(n, "id", "") or getattr(n, "attr", "")) for n in walk(node)} - {""}
