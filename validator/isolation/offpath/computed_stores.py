"""Code that sets attributes under names that only run time tells: `setattr(self, key, value)`, `vars(x)[key] = …`,
`x.__dict__.update(…)`. What a class's attribute is known to hold rests on none of them meaning it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from validator.isolation.offpath.constants import is_constant, name_of, value_of
from validator.isolation.offpath.place import place_at
from validator.isolation.syntax import functions, nodes, unparse, walk

if TYPE_CHECKING:
    from validator.isolation.offpath.kinds import Class, Kinds

__all__ = ["ComputedStores"]

_WORDS = re.compile(rb"setattr|__dict__|\bvars\(")
_WHOLE = ("__setstate__", "__copy__", "__deepcopy__", "__setattr__")
"""Methods that hand on what another object has, or what they are told by name."""


class ComputedStores:
    """Asks the classes of one tree."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.sources = kinds.world.sources
        self._found: dict[tuple[str, str], list[tuple[str, int, str, frozenset[str]]]] = {}

    def on(self, owner: Class, attr: str) -> tuple[str, int, str] | None:
        """(path, line, text) of a store that may set the attribute on an object of the class; None: there is none."""
        key = (owner.path, owner.node.name)
        if key not in self._found:
            self._found[key] = list(self._stores(owner))
        return next((f[:3] for f in self._found[key] if not f[3] or attr in f[3]), None)

    def _stores(self, owner: Class) -> Iterator[tuple[str, int, str, frozenset[str]]]:
        """The same for all attributes, with the names that it can mean; none: any."""
        family = [*self.kinds.lineage(owner), *self.kinds.below(owner)]
        known = {(one.path, one.node.name) for one in family}
        named = {p for one in family for p in (one.path, *self.sources.mentions(one.node.name))}
        for path in sorted(p for p in named if _WORDS.search(self.sources.data(p))):
            for node, target, key in _computed(self.sources.parse(path).module):
                place = place_at(self.sources, path, node.lineno)
                inside = place.function.name if place.function is not None else ""
                if inside in _WHOLE or not self._is_of(known, target, path, node.lineno):
                    continue
                names = self._names(key, path, node.lineno) if key is not None else frozenset[str]()
                if names is not None:
                    yield path, node.lineno, unparse(node)[:80], names

    def _is_of(self, known: set[tuple[str, str]], target: ast.expr, path: str, line: int) -> bool:
        """Whether what is stored to may be one of these classes, or an object of one."""
        place = place_at(self.sources, path, line)
        first = name_of(target)
        if first and place.class_name and first in (place.self_name, "cls", "self"):
            return (path, place.class_name) in known
        kind = self.kinds.of(target, place)
        node = getattr(kind, "node", None)
        return isinstance(node, ast.ClassDef) and (getattr(kind, "path", ""), node.name) in known

    def _names(self, key: ast.expr, path: str, line: int) -> frozenset[str] | None:
        """The names that a loop over constants goes through; empty: any; None: it is none of ours to look at, as names
        that are put together from a known beginning or end are searched for elsewhere."""
        if isinstance(key, ast.JoinedStr) and any(isinstance(v, ast.Constant) for v in key.values):
            return None
        if isinstance(key, ast.BinOp) and any(isinstance(s, ast.Constant) for s in (key.left, key.right)):
            return None
        around = [f for f in functions(self.sources.parse(path).module) if f.lineno <= line <= (f.end_lineno or 0)]
        body = max(around, key=lambda f: f.lineno, default=self.sources.parse(path).module)
        for loop in (n for n in walk(body) if isinstance(n, ast.For)) if body is not None else ():
            if isinstance(loop.target, ast.Name) and loop.target.id == getattr(key, "id", None):
                return self._display(loop.iter, path)
        return frozenset()

    def _display(self, node: ast.expr, path: str) -> frozenset[str]:
        if isinstance(node, ast.Name):
            match self.kinds.world.names.bindings(path).get(node.id, []):
                case [ast.Assign(value=value)]:
                    node = value
        if not isinstance(node, ast.Tuple | ast.List | ast.Set) or not all(map(is_constant, node.elts)):
            return frozenset()
        return frozenset(str(value_of(e)) for e in node.elts)


def _computed(module: ast.Module | None) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr, ast.expr | None]]:
    """(node, what is stored to, the name or None where it is a whole mapping) of every store under a computed name."""
    for call in nodes(module, ast.Call):
        match call:
            case ast.Call(func=ast.Name(id="setattr") | ast.Attribute(attr="__setattr__"), args=[target, key, _]):
                if not isinstance(key, ast.Constant):
                    yield call, target, key
            case ast.Call(
                func=ast.Attribute(value=table, attr="update" | "__setitem__" | "setdefault"), args=[given, *_]
            ):
                target_ = _table_of(table)
                if target_ is not None and _table_of(given) is None and not isinstance(given, ast.Constant):
                    yield call, target_, None
    stored: list[tuple[ast.stmt, Sequence[ast.expr], ast.expr]] = [
        *((store, store.targets, store.value) for store in nodes(module, ast.Assign)),
        *((store, [store.target], store.value) for store in nodes(module, ast.AugAssign)),
    ]
    for store, targets, value in stored:
        for place in targets:
            whole = _table_of(place)
            keyed = _table_of(place.value) if isinstance(place, ast.Subscript) else None
            if whole is not None and _table_of(value) is None:
                yield store, whole, None
            elif keyed is not None and isinstance(place, ast.Subscript) and not isinstance(place.slice, ast.Constant):
                yield store, keyed, place.slice


def _table_of(node: ast.expr) -> ast.expr | None:
    """`x` of `x.__dict__` and `vars(x)`."""
    match node:
        case ast.Attribute(value=value, attr="__dict__"):
            return value
        case ast.Call(func=ast.Name(id="vars"), args=[value]):
            return value
    return None
