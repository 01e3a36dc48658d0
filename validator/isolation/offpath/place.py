"""Where code stands: file, class, function; with what is known about its local names."""

from __future__ import annotations

import ast
from collections import Counter

from validator.isolation.offpath.scopes import FunctionNode, Scope, bound_names, parameters, walk_scope
from validator.isolation.source import Sources
from validator.isolation.syntax import walk

__all__ = ["Place", "place_at"]


class Place:
    """Where code stands: file, class, function; with what is known about its local names."""

    def __init__(self, path: str, scope: Scope, class_name: str = "", self_name: str = "") -> None:
        self.path = path
        self.scope = scope
        self.class_name = class_name
        """Innermost class of the method, empty outside classes."""
        self.self_name = self_name
        """First parameter of the method."""
        self.env: dict[str, ast.expr] = {}
        """Local name → constant (or an empty display that nothing changes)."""
        self.module_level = False
        self.imports: dict[str, ast.Import | ast.ImportFrom] = {}
        """Local name → the import that alone binds it."""
        self.read_only: frozenset[str] = frozenset()
        """Local names whose every use is a read of a key or a membership test: an empty display stays empty."""
        self.entered: frozenset[str] = frozenset()
        """Local names whose every use is to be entered by a `with`."""
        self.function: FunctionNode | None = None
        """The function that the place is in, as written."""
        self.outer: Place | None = None
        """Where a nested function was made."""
        self.hidden: frozenset[str] = frozenset()
        """Names of a comprehension or lambda around the expression at hand."""
        self.under: tuple[str, ...] = ()
        """Undecided conditions around the statement at hand, as text."""

    @property
    def qualified(self) -> str:
        """`Class.method` or `function`."""
        name = self.function.name if self.function else ""
        return ".".join(filter(None, (self.class_name, name)))

    @property
    def parameters(self) -> frozenset[str]:
        """Names that are bound when the function starts."""
        return frozenset(parameters(self.function.args)) if self.function else frozenset()

    def enter(self, body: list[ast.stmt]) -> None:
        """Look at the function's own statements for imports and for names that are only read from."""
        for node in walk_scope(body):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for name in bound_names([node]):
                    if self.scope.bindings[name] == 1:
                        self.imports[name] = node
        uses = Counter(n.id for s in body for n in walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
        reads = Counter(name for s in body for n in walk(s) for name in _key_reads(n))
        self.read_only = frozenset(name for name, count in uses.items() if reads[name] == count)
        withs = (n for s in body for n in walk(s) if isinstance(n, ast.With))
        heads = (item.context_expr for n in withs for item in n.items if item.optional_vars is None)
        entered = Counter(e.id for e in heads if isinstance(e, ast.Name))
        self.entered = frozenset(name for name, count in entered.items() if uses[name] == count)

    def may_know(self, name: str) -> bool:
        """Whether a value of this name may be propagated: no other scope rebinds it."""
        return name not in self.scope.shared and not self.scope.dynamic

    def local(self, name: str) -> bool:
        """Whether the name belongs to the function."""
        return not self.module_level and name in self.scope.bindings


def place_at(sources: Sources, path: str, line: int, *, inside: bool = True) -> Place:
    """The place of a statement at this line of a file; with `inside` false, of the definition that starts there."""
    place = Place(path, Scope())
    place.module_level = True
    body: list[ast.stmt] = module.body if (module := sources.parse(path).module) else []
    while True:
        around = (s for s in body if _starts(s) <= line <= (s.end_lineno or s.lineno))
        node = next((n for s in around for n in walk(s) if isinstance(n, _DEFINITIONS) and _holds(n, line)), None)
        if node is None or (not inside and node.lineno == line):
            return place
        if isinstance(node, ast.ClassDef):
            place = Place(path, Scope.of(node.body), node.name)
            place.module_level = True
        else:
            positional = [*node.args.posonlyargs, *node.args.args]
            method = place.class_name if place.module_level else ""
            outer = place if place.function else None
            place = Place(
                path, Scope.of(node.body, node.args), method, positional[0].arg if method and positional else ""
            )
            place.enter(node.body)
            place.function, place.outer = node, outer
        body = node.body


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _starts(node: ast.stmt) -> int:
    """First line, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _key_reads(node: ast.AST) -> list[str]:
    """Names from which this node reads a key, or in which it looks for one, or whose truth it tests."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get" | "keys" | "items")):
            return [name]
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Load()):
            return [name]
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id=name)]):
            return [name]
        case ast.If(test=ast.Name(id=name)) | ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
            return [name]
    return []
