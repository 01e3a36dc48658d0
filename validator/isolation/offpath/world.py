"""One tree with its switch off in one way: what names, attributes and calls are known to give."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from validator.isolation.offpath.constants import constant, is_constant, name_of, value_of
from validator.isolation.offpath.notes import Note
from validator.isolation.offpath.purity import Purity
from validator.isolation.offpath.reduce import Place, Reducer
from validator.isolation.offpath.scopes import FunctionNode, Scope, bound_names, walk_scope
from validator.isolation.offpath.simplify import function_body, simplify_module
from validator.isolation.offpath.switch import OffForm
from validator.isolation.source import Sources

__all__ = ["Facts", "Function", "World", "place_at"]

_DEPTH = 12
"""Calls inside calls that are followed."""
_TRANSPARENT = frozenset({"lru_cache", "cache", "staticmethod", "classmethod", "property", "cached_property"})
"""Decorators that do not change what a call gives."""


@dataclass
class Facts:
    """What holds for attributes and parameters while the switch is off; shrinks until it is stable."""

    attributes: dict[str, ast.expr] = field(default_factory=dict)
    """Attribute name → constant, whatever the object."""
    of_class: dict[tuple[str, str, str], ast.expr] = field(default_factory=dict)
    """(path, class, attribute) → constant, read through `self`."""
    parameters: dict[tuple[str, str, str], ast.expr] = field(default_factory=dict)
    """(path, qualified function name, parameter) → the default, which every call leaves alone."""


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


class World:
    """Answers what the reducer asks. Every answer is a fact of the source text, or None."""

    def __init__(
        self,
        sources: Sources,
        form: OffForm,
        facts: Facts | None = None,
        fresh: frozenset[str] = frozenset(),
        modules: Mapping[str, ast.Module] | None = None,
    ) -> None:
        self.sources = sources
        self.form = form
        self.facts = facts or Facts()
        self.fresh = fresh
        """Module-level names that only the head has: their constants are propagated."""
        self.modules = modules or {}
        """Path → what of the file has to be evaluated; absent: all of it."""
        self._residuals: dict[str, list[ast.stmt]] = {}
        self.purity = Purity(self._computed)
        self.seen_switch = False
        self.names_read: set[tuple[str, str, int]] = set()
        """(path, name, line) of every read of a name that was looked at."""
        self._evaluating = ""
        self.notes: list[Note] = []
        """What was left out although it is evaluated: see `raising`."""
        self._globals: dict[tuple[str, str], ast.expr | None] = {}
        self._bindings: dict[str, dict[str, list[ast.AST]]] = {}
        self._results: dict[tuple[object, ...], ast.expr | str | None] = {}
        self._active: list[tuple[object, ...]] = []
        self._properties: dict[str, bool] = {}

    def note(self, node: ast.expr, place: Place, *, tested: bool = False) -> None:
        """Remember that this expression is evaluated there and left out."""
        if isinstance(node, ast.Constant):
            return
        self.notes.append(Note(node, copy.copy(place), self._evaluating or place.path, tested, place.under))

    def note_in(self, node: ast.expr, path: str, function: FunctionNode, class_name: str) -> None:
        """The same for an expression of a function's own scope."""
        place = Place(path, Scope.of(function.body, function.args), class_name)
        positional = [*function.args.posonlyargs, *function.args.args]
        place.self_name = positional[0].arg if class_name and positional else ""
        place.enter(function.body)
        place.function = function
        self.note(node, place)

    # Modules ---------------------------------------------------------------------------------------------------

    def residual(self, path: str) -> list[ast.stmt]:
        """What is left of a file. The file must parse."""
        if path not in self._residuals:
            module = self.modules.get(path) or self.sources.parse(path).module
            assert module is not None
            self._evaluating = path
            self._residuals[path] = simplify_module(self, path, module)
            self._evaluating = ""
        return self._residuals[path]

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
        return self._bindings[path]

    def binds(self, path: str, name: str) -> bool:
        """Whether the module binds the name itself (and so hides a builtin)."""
        return name in self.bindings(path)

    def global_value(self, path: str, name: str) -> ast.expr | None:
        """Constant of a module-level name that is bound once, where it follows from the switch."""
        key = (path, name)
        if key not in self._globals:
            self._globals[key] = None
            self._globals[key] = self._global_value(path, name)
        return self._globals[key]

    def _global_value(self, path: str, name: str) -> ast.expr | None:
        nodes = self.bindings(path).get(name, [])
        if len(nodes) != 1 or self.binds(path, "*"):
            return None
        node = nodes[0]
        if isinstance(node, ast.ImportFrom):
            target = self._imported(path, node, name)
            return self.global_value(*target) if target else None
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            return None
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if [t.id for t in targets if isinstance(t, ast.Name)] != [name] or len(targets) != 1:
            return None
        if is_constant(node.value) and name not in self.fresh:
            return None
        data = self.sources.data(path)
        if re.search(rb"\bglobal\b[^\n]*\b" + name.encode() + rb"\b", data):
            return None
        if any(
            re.search(
                rb"\.\s*"
                + name.encode()
                + rb"\s*(?:[-+*/|&^@%]|//|\*\*|<<|>>)?=(?!=)|[\"']"
                + name.encode()
                + rb"[\"']",
                self.sources.data(p),
            )
            for p in self.sources.mentions(name)
        ):
            return None
        place = Place(path, Scope())
        place.module_level = True
        value = Reducer(self, place).expr(node.value)
        return value if is_constant(value) else None

    def _imported(self, path: str, node: ast.ImportFrom, name: str) -> tuple[str, str] | None:
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

    # Attributes ------------------------------------------------------------------------------------------------

    def attribute(self, node: ast.Attribute, place: Place) -> ast.expr | None:
        """Constant that an attribute read gives."""
        fact = self.facts.attributes.get(node.attr)
        if fact is not None:
            return fact
        if (
            isinstance(node.value, ast.Name)
            and place.self_name
            and node.value.id in (place.self_name, place.class_name)
        ):
            fact = self.facts.of_class.get((place.path, place.class_name, node.attr))
            if fact is not None:
                return fact
            method = self._method(place, node.attr)
            if method and _decorated(method.node, "property", "cached_property"):
                result = self._result(method, {})
                return result if isinstance(result, ast.expr) else None
        dotted = name_of(node.value)
        module = self.module_of(place.path, dotted, place) if dotted else None
        return self.global_value(module, node.attr) if module else None

    def _computed(self, name: str) -> bool:
        """Whether some class of the tree defines a property of this name that is not known to be free of effects."""
        if name not in self._properties:
            paths = self.sources.properties().get(name, ())
            self._properties[name] = not all(self._plain_property(p, name) for p in paths)
        return self._properties[name]

    def _plain_property(self, path: str, name: str) -> bool:
        """Whether every property of this name in the file only returns something free of calls."""
        module = self.sources.parse(path).module
        for node in ast.walk(module) if module else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                body = [s for s in node.body if not _docstring(s)]
                if len(body) != 1 or not isinstance(body[0], ast.Return):
                    return False
                if any(isinstance(n, ast.Call | ast.Await | ast.Yield) for n in ast.walk(body[0])):
                    return False
        return module is not None

    # Calls -----------------------------------------------------------------------------------------------------

    def call(self, node: ast.Call, place: Place) -> ast.expr | None:
        """What a call of a function of the tree gives: a constant, or one of its arguments. Arguments are pure."""
        function = self.function(node.func, place)
        known = self._bind(function, node) if function else None
        if function is None or known is None:
            return None
        bound = {k: v for k, v in known.items() if is_constant(v)}
        result = self._result(function, bound)
        if isinstance(result, str):
            return known.get(result)
        return constant(value_of(result), node) if result is not None else None

    def returns_argument(self, decorator: ast.expr, place: Place) -> bool:
        """Whether a decorator of the tree gives back the function it gets, with no effect."""
        function = self.function(decorator, place)
        if function is None or not function.node.args.args:
            return False
        return self._result(function, {}) == function.node.args.args[0].arg

    def function(self, node: ast.expr, place: Place) -> Function | None:
        """The function of the tree that an expression means, when there is exactly one."""
        if isinstance(node, ast.Name):
            if not place.local(node.id):
                return self._named(place.path, node.id)
            binding = place.imports.get(node.id)
            target = self._imported(place.path, binding, node.id) if isinstance(binding, ast.ImportFrom) else None
            return self._named(*target) if target else None
        if not isinstance(node, ast.Attribute):
            return None
        if isinstance(node.value, ast.Name) and place.self_name and node.value.id == place.self_name:
            return self._method(place, node.attr)
        dotted = name_of(node.value)
        module = self.module_of(place.path, dotted, place) if dotted else None
        return self._named(module, node.attr) if module else None

    def _named(self, path: str, name: str, depth: int = 0) -> Function | None:
        nodes = self.bindings(path).get(name, [])
        if len(nodes) != 1 or depth > 5 or self.binds(path, "*"):
            return None
        node = nodes[0]
        if isinstance(node, ast.FunctionDef):
            return Function(path, node)
        if isinstance(node, ast.ImportFrom):
            target = self._imported(path, node, name)
            return self._named(*target, depth + 1) if target else None
        return None

    def _method(self, place: Place, name: str) -> Function | None:
        """The method of this class, when no other class of the tree defines one of that name."""
        if self.sources.defines(name) != 1:
            return None
        for node in self.bindings(place.path).get(place.class_name, []):
            if isinstance(node, ast.ClassDef):
                for item in node.body:
                    if isinstance(item, ast.FunctionDef) and item.name == name:
                        return Function(place.path, item, place.class_name)
        return None

    def _bind(self, function: Function, call: ast.Call) -> dict[str, ast.expr] | None:
        """Parameter → argument or default; None when that cannot be told."""
        args = function.node.args
        if args.vararg or args.kwarg or any(isinstance(a, ast.Starred) for a in call.args):
            return None
        positional = [a.arg for a in (*args.posonlyargs, *args.args)]
        if function.class_name and not _decorated(function.node, "staticmethod"):
            positional = positional[1:]
        if len(call.args) > len(positional) or any(k.arg is None for k in call.keywords):
            return None
        known = dict(zip(positional, call.args, strict=False))
        names = {*positional, *(a.arg for a in args.kwonlyargs)}
        for keyword in call.keywords:
            if keyword.arg not in names or keyword.arg in known:
                return None
            known[keyword.arg] = keyword.value
        all_positional = [a.arg for a in (*args.posonlyargs, *args.args)]
        defaults = dict(zip(all_positional[len(all_positional) - len(args.defaults) :], args.defaults, strict=True))
        defaults |= {a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None}
        for name in names - set(known):
            if name not in defaults:
                return None
            known[name] = defaults[name]
        return known

    def _result(self, function: Function, known: dict[str, ast.expr]) -> ast.expr | str | None:
        """What a call gives when it has no effect: a constant, or the name of the parameter it returns."""
        node = function.node
        key = (
            function.path,
            function.qualified,
            node.lineno,
            tuple(sorted((k, ast.dump(v)) for k, v in known.items())),
        )
        if key in self._results:
            return self._results[key]
        if key in self._active or len(self._active) >= _DEPTH or isinstance(node, ast.AsyncFunctionDef):
            return None
        if not all(_name(d) in _TRANSPARENT for d in node.decorator_list):
            return None
        self._active.append(key)
        notes, self.notes = self.notes, []
        try:
            self._results[key] = self._evaluate(function, known)
        finally:
            self._active.pop()
            notes, self.notes = self.notes, notes
        if self._results[key] is not None:
            self.notes += notes
        return self._results[key]

    def _evaluate(self, function: Function, known: dict[str, ast.expr]) -> ast.expr | str | None:
        node = function.node
        if any(isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) for s in node.body for n in ast.walk(s)):
            return None
        positional = [*node.args.posonlyargs, *node.args.args]
        method = bool(function.class_name) and not _decorated(node, "staticmethod")
        place = Place(function.path, Scope(), function.class_name, positional[0].arg if method and positional else "")
        body, falls = function_body(self, place, node, known)
        inner = Place(place.path, Scope.of(node.body, node.args), place.class_name, place.self_name)
        inner.function = node
        outcomes = self._outcomes(
            inner, body, {a.arg for a in (*positional, *node.args.kwonlyargs)} - set(bound_names(node.body))
        )
        if outcomes is None:
            return None
        results = [*outcomes, *([constant(None, node)] if falls else [])]
        first = results[0] if results else None
        if first is None or any(ast.dump(r) != ast.dump(first) for r in results):
            return None
        return first.id if isinstance(first, ast.Name) else first

    def _outcomes(self, place: Place, body: list[ast.stmt], returnable: set[str]) -> list[ast.expr] | None:
        """Everything that statements may return: constants and unchanged parameters. None: they do more than that."""
        found: list[ast.expr] = []
        for node in body:
            match node:
                case ast.Return(value=None):
                    found.append(constant(None, node))
                case ast.Return(value=value) if is_constant(value):
                    found.append(value)  # type: ignore[arg-type]  # a constant is an expression
                case ast.Return(value=ast.Name(id=name) as value) if name in returnable:
                    found.append(value)
                case ast.If(test=test) if self.purity(test):
                    self.note(test, place, tested=True)
                    inner = [self._outcomes(place, branch, returnable) for branch in (node.body, node.orelse)]
                    if inner[0] is None or inner[1] is None:
                        return None
                    found += [*inner[0], *inner[1]]
                case ast.Assign() if self._private_store(node):
                    self.note(node.value, place)
                case ast.Pass():
                    pass
                case _:
                    return None
        return found

    def _private_store(self, node: ast.Assign) -> bool:
        """Whether an assignment only binds local names to something free of effects."""
        return all(isinstance(t, ast.Name) for t in node.targets) and self.purity(node.value)

    # Parameters ------------------------------------------------------------------------------------------------

    def known_parameters(self, place: Place, node: FunctionNode) -> dict[str, ast.expr]:
        """Parameters of a function whose value is known while the switch is off."""
        prefix = (place.path, f"{place.class_name}.{node.name}" if place.class_name else node.name)
        known = {name: v for (path, qual, name), v in self.facts.parameters.items() if (path, qual) == prefix}
        switch = self.form.switch
        if switch.argument:
            default = default_of(node.args, switch.name)
            if default is not None and is_constant(default) and value_of(default) == switch.default:
                known[switch.name] = default
        return known

    def without_known_parameters(self, place: Place, node: FunctionNode) -> ast.arguments:
        """The signature without parameters that the head added and that keep their default."""
        prefix = (place.path, f"{place.class_name}.{node.name}" if place.class_name else node.name)
        gone = {name for (path, qual, name) in self.facts.parameters if (path, qual) == prefix}
        return drop_parameters(node.args, gone)

    def drop_default_arguments(self, node: ast.Call, place: Place) -> ast.Call:
        """The call without arguments that hand such a parameter its default."""
        name = name_of(node.func).split(".")[-1] if name_of(node.func) else getattr(node.func, "attr", "")
        gone = {
            parameter: value
            for (_, qual, parameter), value in self.facts.parameters.items()
            if name in called_as(qual) and parameter
        }
        keywords = [
            k for k in node.keywords
            if not (k.arg in gone and is_constant(k.value) and ast.dump(k.value) == ast.dump(gone[k.arg]))
        ]  # fmt: skip
        if len(keywords) == len(node.keywords):
            return node
        return ast.copy_location(ast.Call(func=node.func, args=node.args, keywords=keywords), node)


def place_at(world: World, path: str, line: int, *, inside: bool = True) -> Place:
    """The place of a statement at this line of a file; with `inside` false, of the definition that starts there."""
    place = Place(path, Scope())
    place.module_level = True
    body: list[ast.stmt] = module.body if (module := world.sources.parse(path).module) else []
    while True:
        node = next((n for s in body for n in ast.walk(s) if isinstance(n, _DEFINITIONS) and _holds(n, line)), None)
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


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


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
    return [n.id for p in parts for n in ast.walk(p) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _name(node: ast.expr) -> str:
    """Last part of a decorator's name, called or not."""
    return name_of(node.func if isinstance(node, ast.Call) else node).split(".")[-1]


def _decorated(node: FunctionNode, *names: str) -> bool:
    return any(_name(d) in names for d in node.decorator_list)


def _docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def called_as(qualified: str) -> frozenset[str]:
    """Names under which calls mean this function: a constructor is called by its class's name too."""
    *owner, name = qualified.split(".")
    return frozenset({name, *owner}) if name == "__init__" else frozenset({name})


def default_of(args: ast.arguments, name: str) -> ast.expr | None:
    """The parameter's default, None when it has none or does not exist."""
    positional = [a.arg for a in (*args.posonlyargs, *args.args)]
    with_default = dict(zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True))
    with_default |= {a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None}
    return with_default.get(name)


def drop_parameters(args: ast.arguments, gone: set[str]) -> ast.arguments:
    """The signature without these parameters (each has a default)."""
    if not gone:
        return args
    positional = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    kept = [d for a, d in zip(positional, defaults, strict=True) if a.arg not in gone and d is not None]
    keyword = [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if a.arg not in gone]
    return ast.arguments(
        posonlyargs=[a for a in args.posonlyargs if a.arg not in gone],
        args=[a for a in args.args if a.arg not in gone],
        vararg=args.vararg,
        kwonlyargs=[a for a, _ in keyword],
        kw_defaults=[d for _, d in keyword],
        kwarg=args.kwarg,
        defaults=kept,
    )
