"""What the names of a tree's modules mean: facts of the text, the same for every way of being off."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property

from validator.isolation.offpath.constants import is_constant, name_of
from validator.isolation.offpath.place import Place
from validator.isolation.offpath.providers import INERT, KERNELS, OF_THE_CLASS, is_known
from validator.isolation.offpath.scopes import FunctionNode, bound_names, walk_scope
from validator.isolation.source import Sources
from validator.isolation.syntax import walk

__all__ = ["Function", "Meanings", "Names", "decorated", "decorator_name"]


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method of the tree."""

    path: str
    node: FunctionNode
    class_name: str = ""

    @property
    def qualified(self) -> str:
        """`Class.method` or `function`."""
        return f"{self.class_name}.{self.node.name}" if self.class_name else self.node.name


class Names:
    """Answers about the modules of one tree; each module is looked at once."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._bindings: dict[str, dict[str, list[ast.AST]]] = {}
        self._properties: dict[str, bool] = {}

    def bindings(self, path: str) -> dict[str, list[ast.AST]]:
        """Module-level name → the nodes that bind it, anywhere in the module's own scope."""
        if path not in self._bindings:
            found: dict[str, list[ast.AST]] = {}
            module = self.sources.parse(path).module
            for node in walk_scope(module.body) if module else ():
                if isinstance(node, ast.stmt) and not isinstance(node, _BLOCKS):
                    for name in bound_names([node]):
                        found.setdefault(name, []).append(node)
                elif isinstance(node, _BLOCKS):
                    for name in _header_names(node):
                        found.setdefault(name, []).append(node)
            self._bindings[path] = found
            for name, nodes in found.items():
                if len(nodes) > 1:
                    found[name] = [n for n in nodes[:-1] if not self.is_overload(path, n)] + nodes[-1:]
        return self._bindings[path]

    def is_overload(self, path: str, node: ast.AST) -> bool:
        """Whether a definition only tells type checkers of one way of calling the one that follows: making it runs
        nothing but its annotations."""
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        given = [d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
        decorators = node.decorator_list
        return (
            len(decorators) == 1 and self._of_typing(path, decorators[0], "overload") and all(map(is_constant, given))
        )

    def is_type_checking(self, path: str, node: ast.expr) -> bool:
        """Whether a name or attribute is `typing.TYPE_CHECKING`, which is false whenever code runs."""
        return self._of_typing(path, node, "TYPE_CHECKING")

    def _of_typing(self, path: str, node: ast.expr, name: str) -> bool:
        """Whether an expression is this member of `typing`."""
        first, _, rest = name_of(node).partition(".")
        bound = self.bindings(path).get(first, [])
        if rest:
            return rest == name and bool(bound) and all(
                isinstance(n, ast.Import) and any(a.name in _TYPING and (a.asname or a.name) == first for a in n.names)
                for n in bound
            )  # fmt: skip
        return bool(bound) and all(
            isinstance(n, ast.ImportFrom)
            and n.module in _TYPING
            and any((a.asname or a.name, a.name) == (first, name) for a in n.names)
            for n in bound
        )

    def is_inert(self, path: str, decorator: ast.expr, kinds: Set[str] = INERT) -> bool:
        """Whether a decorator is one of these, which hand nothing to anybody, and comes from where they come from."""
        name = decorator_name(decorator)
        dotted = name_of(decorator.func if isinstance(decorator, ast.Call) else decorator)
        first, _, rest = dotted.partition(".")
        if name not in kinds:
            return False
        if self.binds(path, first):
            return self.comes_from_outside(path, first)
        return name in OF_THE_CLASS if rest else hasattr(builtins, first)

    def comes_from_outside(self, path: str, name: str, depth: int = 0) -> bool:
        """Whether all that binds the module's name takes it from Python or a known package, if only by way of another
        module of the tree: `from engine.triton_utils import triton`."""
        bound = self.bindings(path).get(name, [])
        taken = [self._is_taken(path, node, name, depth) for node in bound]
        # What the base hands on is as it was: there, something may stand in where the package is lacking.
        handed_on = depth and self.sources.twin is not None and path in self.sources.twin
        return (any(taken) and not any(map(_is_function, bound))) if handed_on else bool(taken) and all(taken)

    def _is_taken(self, path: str, node: ast.AST, name: str, depth: int) -> bool:
        if isinstance(node, ast.Import):
            module = next((a.name for a in node.names if a.asname == name), name)
            return self.sources.module_path(module) is None and is_known(module)
        if not isinstance(node, ast.ImportFrom):
            return isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is None
        target = self.imported(path, node, name)
        if target is not None:
            return depth < 4 and self.comes_from_outside(*target, depth + 1)
        module = self.sources.resolve(path, node)
        original = next((a.name for a in node.names if (a.asname or a.name) == name), name)
        return is_known(module) and self.sources.module_path(f"{module}.{original}") is None

    def at(self, path: str) -> Meanings:
        """What the names of one module mean."""
        return Meanings(self, path)

    def binds(self, path: str, name: str) -> bool:
        """Whether the module binds the name itself (and so hides a builtin), or the builtin of it is replaced."""
        return name in self.bindings(path) or name in self._replaced_builtins

    @cached_property
    def _replaced_builtins(self) -> frozenset[str]:
        """Builtins that some module outside the isolated paths replaces for all: `builtins.bool = …`; those that it
        names in a quoted word count as well."""
        found: set[str] = set()
        for path in (*self.sources.mentions("builtins"), *self.sources.mentions("__builtins__")):
            data = self.sources.data(path)
            called = rb"|".join({b"builtins", b"__builtins__", *_BUILTINS_AS.findall(data)})
            stored = rb"\b(?:" + called + rb")(?:\.|\.__dict__\[[\"']|\[[\"'])(\w+)[\"'\]]*\s*=(?!=)"
            by_name = rb"\b(?:setattr|patch\.object)\(\s*(?:" + called + rb")\s*,\s*[\"'](\w+)[\"']"
            by_table = rb"\b(?:" + called + rb")(?:\.__dict__)?\)?\.update\(([^)]{0,2000})"
            found |= {m.decode() for pattern in (stored, by_name) for m in re.findall(pattern, data)}
            found |= {w.decode() for text in re.findall(by_table, data) for w in re.findall(rb"\w+", text)}
        return frozenset(name for name in found if hasattr(builtins, name))

    def imported(self, path: str, node: ast.ImportFrom, name: str) -> tuple[str, str] | None:
        """(path, name) that a `from` import binds to `name`."""
        original = next((a.name for a in node.names if (a.asname or a.name) == name), None)
        module = self.sources.module_path(self.sources.resolve(path, node))
        return (module, original) if module and original else None

    def module_of(self, path: str, dotted: str, place: Place | None = None) -> str | None:
        """Path of the module that a dotted expression in this file means, None when it means none of the tree's."""
        first, _, rest = dotted.partition(".")
        nodes = self.bindings(path).get(first, [])
        if place and place.local(first):
            nodes = [place.imports[first]] if first in place.imports else []
        if not nodes or not all(isinstance(n, ast.Import | ast.ImportFrom) for n in nodes):
            return None
        name = ""
        for node in nodes:
            if isinstance(node, ast.Import):
                alias = next((a for a in node.names if a.asname == first), None)
                name = alias.name if alias else first
            elif isinstance(node, ast.ImportFrom):
                original = next((a.name for a in node.names if (a.asname or a.name) == first), first)
                name = f"{self.sources.resolve(path, node)}.{original}"
        return self.sources.module_path(f"{name}.{rest}" if rest else name)

    def computed(self, name: str) -> bool:
        """Whether some class of the tree defines a property of this name that is not known to be free of effects."""
        if name not in self._properties:
            paths = self.sources.properties().get(name, ())
            self._properties[name] = not all(self._plain_property(p, name) for p in paths)
        return self._properties[name]

    def _plain_property(self, path: str, name: str) -> bool:
        """Whether every property of this name in the file only returns something free of calls."""
        module = self.sources.parse(path).module
        for node in walk(module) if module else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                body = [s for s in node.body if not _docstring(s)]
                if len(body) != 1 or not isinstance(body[0], ast.Return):
                    return False
                if any(isinstance(n, ast.Call | ast.Await | ast.Yield) for n in walk(body[0])):
                    return False
        return module is not None

    def function(self, path: str, name: str, depth: int = 0) -> Function | None:
        """The function that a module-level name means, when that is one for sure."""
        nodes = self.bindings(path).get(name, [])
        if len(nodes) != 1 or depth > 5 or self.binds(path, "*"):
            return None
        node = nodes[0]
        if isinstance(node, ast.FunctionDef):
            return Function(path, node)
        if isinstance(node, ast.ImportFrom):
            target = self.imported(path, node, name)
            return self.function(*target, depth + 1) if target else None
        return None

    def method(self, place: Place, name: str) -> Function | None:
        """The method of this class, when no other class of the tree defines one of that name."""
        for node in self.bindings(place.path).get(place.class_name, []):
            if isinstance(node, ast.ClassDef) and any(getattr(item, "name", "") == name for item in node.body):
                if self.sources.defines(name) != 1:
                    return None
                stored = re.compile(rb"\." + re.escape(name.encode()) + rb"\s*(?::[^=\n]+)?=(?!=)")
                if sum(n == name for n in bound_names(node.body)) != 1 or stored.search(self.sources.data(place.path)):
                    return None
                for item in node.body:
                    if isinstance(item, ast.FunctionDef) and item.name == name:
                        return Function(place.path, item, place.class_name)
        return None


@dataclass(frozen=True, slots=True)
class Meanings:
    """The names of one module: see `effects.Meaning`."""

    names: Names
    path: str

    def is_quiet(self, decorator: ast.expr) -> bool:
        """Whether the decorator hands what it gets to nobody."""
        return self.names.is_inert(self.path, decorator, INERT | KERNELS)

    def is_itself(self, dotted: str) -> bool:
        """Whether the name means what it is called in Python or in a known package, not something of the tree."""
        first = dotted.partition(".")[0]
        if not self.names.binds(self.path, first):
            return hasattr(builtins, first) or self.names.binds(self.path, "*")
        return dotted == "init_logger" or self.names.comes_from_outside(self.path, first)


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


_BUILTINS_AS = re.compile(rb"\bimport[ \t]+builtins[ \t]+as[ \t]+(\w+)")
_TYPING = ("typing", "typing_extensions")
_BLOCKS = (
    ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match,
    *((ast.TryStar,) if hasattr(ast, "TryStar") else ()),
)  # fmt: skip


def _header_names(node: ast.AST) -> list[str]:
    """Names that a compound statement's header binds."""
    parts: list[ast.AST] = []
    if isinstance(node, ast.For | ast.AsyncFor):
        parts = [node.target]
    elif isinstance(node, ast.With | ast.AsyncWith):
        parts = [i.optional_vars for i in node.items if i.optional_vars]
    elif isinstance(node, ast.If | ast.While):
        parts = [node.test]
    return [n.id for p in parts for n in walk(p) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def decorator_name(node: ast.expr) -> str:
    """Last part of a decorator's name, called or not."""
    return name_of(node.func if isinstance(node, ast.Call) else node).split(".")[-1]


def decorated(node: FunctionNode, *names: str) -> bool:
    return any(decorator_name(d) in names for d in node.decorator_list)


def _docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
