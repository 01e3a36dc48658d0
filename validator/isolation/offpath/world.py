"""One tree with its switch off in one way: what names, attributes and calls are known to give."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from validator.isolation.offpath.arguments import Arguments
from validator.isolation.offpath.constants import constant, empty_display, is_constant, is_small, name_of, value_of
from validator.isolation.offpath.enums import member_of
from validator.isolation.offpath.names import Function, Names, decorated, decorator_name
from validator.isolation.offpath.notes import Idle, Note
from validator.isolation.offpath.place import Place
from validator.isolation.offpath.purity import Purity
from validator.isolation.offpath.reduce import Reducer
from validator.isolation.offpath.scopes import FunctionNode, Scope, bound_names, parameters
from validator.isolation.offpath.signatures import bind_arguments
from validator.isolation.offpath.simplify import function_body, simplify_module
from validator.isolation.offpath.switch import OffForm
from validator.isolation.syntax import nodes, walk

__all__ = ["Facts", "World"]

_DEPTH = 12
"""Calls inside calls that are followed."""
_BY_TABLE = re.compile(rb"\b(?:globals\(\)|sys\.modules\[__name__\])")
"""Code that may bind names of its module without saying which."""
_TRANSPARENT = frozenset({"lru_cache", "cache", "staticmethod", "classmethod", "property", "cached_property"})
"""Decorators that do not change what a call gives."""


@dataclass
class Facts:
    """What holds for attributes and parameters while the switch is off; shrinks until it is stable."""

    attributes: dict[str, ast.expr] = field(default_factory=dict)
    """Attribute name → constant, or the display of what stays empty; whatever the object."""
    of_class: dict[tuple[str, str, str], ast.expr] = field(default_factory=dict)
    """(path, class, attribute) → the same, or what it is another name for; read through `self`."""
    of_module: dict[tuple[str, str], ast.expr] = field(default_factory=dict)
    """(path, name) → the constant that the module binds it to, and that functions which say `global` leave alone."""
    absent: set[str] = field(default_factory=set)
    """Attributes that only the head names, and that nothing stores while the switch is off."""
    parameters: dict[tuple[str, str, str], ast.expr] = field(default_factory=dict)
    """(path, qualified function name, parameter) → the default, which every call leaves alone."""


class World:
    """Answers what the reducer asks. Every answer is a fact of the source text, or None."""

    def __init__(
        self,
        names: Names,
        form: OffForm,
        facts: Facts | None = None,
        fresh: frozenset[str] = frozenset(),
        modules: Mapping[str, ast.Module] | None = None,
    ) -> None:
        self.names = names
        self.sources = names.sources
        self.form = form
        self.facts = facts or Facts()
        self.fresh = fresh
        """Module-level names that only the head has: their constants are propagated."""
        self.modules = modules or {}
        """Path → what of the file has to be evaluated; absent: all of it."""
        self._residuals: dict[str, list[ast.stmt]] = {}
        self.purity = Purity(self.names.computed)
        self.idle = Idle({})
        """What only the head has and nothing in the tree reaches with the switch off; known once the facts are."""
        self.surely_idle = Idle({})
        """Of that, what the change itself names somewhere: it is not meant for somebody outside the tree."""
        self.seen_switch = False
        self.facts_used: set[str] = set()
        """Attributes of which what they hold was asked for, and told."""
        self.names_read: set[tuple[str, str, int]] = set()
        """(path, name, line) of every read of a name that was looked at."""
        self.idle_decorators: set[tuple[str, int, str]] = set()
        """(path, line, text) of decorators that change nothing."""
        self.overloads: dict[str, list[ast.stmt]] = {}
        """Path → definitions that tell type checkers how to call another, and that are left out."""
        self._evaluating = ""
        self.root = 0
        """See `Note.root`."""
        self.notes: list[Note] = []
        """What was left out although it is evaluated: see `raising`."""
        self.arguments = Arguments(names, form, self.facts.parameters)
        self._globals: dict[tuple[str, str], ast.expr | None] = {}
        self._results: dict[tuple[object, ...], ast.expr | str | None] = {}
        self._active: list[tuple[object, ...]] = []

    def note(self, node: ast.expr, place: Place, *, tested: bool = False) -> None:
        """Remember that this expression is evaluated there and left out."""
        if isinstance(node, ast.Constant):
            return
        path = self._evaluating or place.path
        self.notes.append(Note(node, copy.copy(place), path, tested, self.root, place.under))

    def note_in(self, node: ast.expr, path: str, function: FunctionNode, class_name: str) -> None:
        """The same for an expression of a function's own scope."""
        place = Place(path, Scope.of(function.body, function.args), class_name)
        positional = [*function.args.posonlyargs, *function.args.args]
        place.self_name = positional[0].arg if class_name and positional else ""
        place.enter(function.body)
        place.function = function
        root, self.root = self.root, function.body[0].lineno
        self.note(node, place)
        self.root = root

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

    def global_value(self, path: str, name: str) -> ast.expr | None:
        """Constant of a module-level name that is bound once, where it follows from the switch."""
        key = (path, name)
        if key not in self._globals:
            self._globals[key] = None
            self._globals[key] = self._global_value(path, name)
        return self._globals[key]

    def _global_value(self, path: str, name: str) -> ast.expr | None:
        nodes = self.names.bindings(path).get(name, [])
        if len(nodes) != 1 or self.names.binds(path, "*"):
            return None
        node = nodes[0]
        if isinstance(node, ast.ImportFrom):
            target = self.names.imported(path, node, name)
            return self.global_value(*target) if target else None
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            return None
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if [t.id for t in targets if isinstance(t, ast.Name)] != [name] or len(targets) != 1:
            return None
        if is_constant(node.value) and name not in self.fresh:
            return None
        data = self.sources.data(path)
        shared = re.search(rb"\bglobal\b[^\n]*\b" + name.encode() + rb"\b", data)
        if (shared is not None and (path, name) not in self.facts.of_module) or _BY_TABLE.search(data):
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
        return value if is_constant(value) and is_small(value) else None

    @cached_property
    def switch_entry(self) -> ast.expr | None:
        """What the table of environment variables gives for the switch; None: it has no entry that can be told."""
        name = self.form.switch.name
        for path in self.sources.mentions(name):
            for table in nodes(self.sources.parse(path).module, ast.Dict):
                for key, value in zip(table.keys, table.values, strict=True):
                    if key is not None and value_of(key) == name and isinstance(value, ast.Lambda | ast.Name):
                        return self.of_getter(path, value)
        return None

    def of_getter(self, path: str, node: ast.Lambda | ast.Name) -> ast.expr | None:
        """The constant that a function without parameters gives in this module; None: it is none."""
        if isinstance(node, ast.Name):
            function = self.names.function(path, node.id)
            given = self._result(function, {}) if function is not None else None
            return given if isinstance(given, ast.expr) and is_constant(given) else None
        place = Place(path, Scope())
        place.module_level = True
        value = None if parameters(node.args) else Reducer(self, place).expr(node.body)
        return value if value is not None and is_constant(value) else None

    def members(self, node: ast.expr, place: Place) -> ast.expr | None:
        """The display of a set of constants that only the head names, and that nothing but membership tests uses."""
        if not isinstance(node, ast.Name) or place.local(node.id) or node.id not in self.fresh:
            return None
        match self.names.bindings(place.path).get(node.id, []):
            case [ast.Assign(targets=[ast.Name()], value=value)]:
                pass
            case _:
                return None
        if isinstance(value, ast.Call) and name_of(value.func) in ("frozenset", "set") and len(value.args) == 1:
            value = value.args[0]
        if not isinstance(value, ast.Set | ast.List | ast.Tuple) or not all(map(is_constant, value.elts)):
            return None
        other = re.compile(rb"(?<!\bin )\b" + node.id.encode() + rb"\b(?!\s*=(?!=))")
        used = any(other.search(self.sources.data(p)) for p in self.sources.mentions(node.id))
        return None if used else value

    # Attributes ------------------------------------------------------------------------------------------------

    def attribute(self, node: ast.Attribute, place: Place) -> ast.expr | None:
        """Constant that an attribute read gives."""
        fact = self._fact(node, place)
        if fact is not None:
            return fact if is_constant(fact) else None
        if self._of_own(node, place):
            method = self.names.method(place, node.attr)
            if method and decorated(method.node, "property", "cached_property"):
                result = self._result(method, {})
                return result if isinstance(result, ast.expr) and is_constant(result) else None
        dotted = name_of(node.value)
        module = self.names.module_of(place.path, dotted, place) if dotted else None
        return self.global_value(module, node.attr) if module else None

    def _of_own(self, node: ast.Attribute, place: Place) -> bool:
        """Whether the attribute is read off the method's own object or class."""
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        return bool(place.self_name) and owner in (place.self_name, place.class_name)

    def _fact(self, node: ast.Attribute, place: Place) -> ast.expr | None:
        if self._of_module(node, place):
            return None
        known = self.facts.attributes.get(node.attr)
        if known is None and self._of_own(node, place):
            known = self.facts.of_class.get((place.path, place.class_name, node.attr))
        if known is not None:
            self.facts_used.add(node.attr)
        return known

    def _of_module(self, node: ast.Attribute, place: Place) -> bool:
        """Whether the attribute may be one of a module: facts are about objects that have their attributes stored."""
        first = name_of(node.value).split(".")[0]
        if not first or (place.local(first) and first not in place.imports):
            return False
        bound = [place.imports[first]] if first in place.imports else self.names.bindings(place.path).get(first, [])
        return any(isinstance(n, ast.Import | ast.ImportFrom) for n in bound)

    def empty(self, node: ast.expr, place: Place) -> ast.expr | None:
        """The display of an attribute that stays empty; None: it is none."""
        fact = self._fact(node, place) if isinstance(node, ast.Attribute) else None
        return empty_display(fact)

    def alias(self, node: ast.Attribute, place: Place) -> ast.expr | None:
        """What an attribute of the method's own object is another name for: another attribute, a member of an enum."""
        fact = self._fact(node, place) if self._of_own(node, place) else None
        if not isinstance(fact, ast.Attribute) or name_of(node.value) != place.self_name:
            return None
        owner = name_of(fact.value)
        if owner != "self":
            return None if place.local(owner) else ast.copy_location(copy.deepcopy(fact), node)
        return ast.copy_location(ast.Attribute(value=node.value, attr=fact.attr, ctx=ast.Load()), node)

    def absent(self, owner: ast.expr, attr: str, place: Place) -> bool:
        """Whether an object surely lacks the attribute: one that nothing stores has it nowhere."""
        read = ast.copy_location(ast.Attribute(value=owner, attr=attr, ctx=ast.Load()), owner)
        return attr in self.facts.absent and bool(name_of(owner)) and not self._of_module(read, place)

    # Calls -----------------------------------------------------------------------------------------------------

    def call(self, node: ast.Call, place: Place) -> ast.expr | None:
        """What a call of a function of the tree gives: a constant, or one of its arguments. Arguments are pure."""
        function = self.function(node.func, place)
        known = (
            bind_arguments(
                function.node.args,
                node,
                bound=bool(function.class_name) and not decorated(function.node, "staticmethod"),
            )
            if function
            else None
        )
        if function is None or known is None:
            return None
        bound = {k: v for k, v in known.items() if is_constant(v)}
        result = self._result(function, bound)
        if isinstance(result, str):
            return known.get(result)
        if result is None or is_constant(result):
            return constant(value_of(result), node) if result is not None else None
        return self._own_here(result, function, node, place) or self._member_here(result, function, node, place)

    def _own_here(self, result: ast.expr, function: Function, node: ast.Call, place: Place) -> ast.expr | None:
        """What `return self.x` gives where the method is called on the caller's own object."""
        first = next(iter([*function.node.args.posonlyargs, *function.node.args.args]), None)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if not isinstance(result, ast.Attribute) or first is None or name_of(result.value) != first.arg:
            return None
        if not isinstance(owner, ast.Name) or owner.id != place.self_name or decorated(function.node, "classmethod"):
            return None
        return ast.copy_location(ast.Attribute(value=owner, attr=result.attr, ctx=ast.Load()), node)

    def _member_here(self, result: ast.expr, function: Function, node: ast.Call, place: Place) -> ast.expr | None:
        """A member of an enumeration that a function gives, where its caller calls the class by the same name."""
        if place.local(name_of(result).partition(".")[0]):
            return None
        meant = member_of(self.names, function.path, result)
        same = meant is not None and meant == member_of(self.names, place.path, result)
        return ast.copy_location(copy.deepcopy(result), node) if same else None

    def returns_parameter(self, function: Function) -> bool:
        """Whether calling it has no effect and gives back the first argument."""
        first = next(iter(function.node.args.args), None)
        return first is not None and self._result(function, {}) == first.arg

    def function(self, node: ast.expr, place: Place) -> Function | None:
        """The function of the tree that an expression means, when there is exactly one."""
        if isinstance(node, ast.Name):
            if not place.local(node.id):
                return self.names.function(place.path, node.id)
            binding = place.imports.get(node.id)
            target = self.names.imported(place.path, binding, node.id) if isinstance(binding, ast.ImportFrom) else None
            return self.names.function(*target) if target else None
        if not isinstance(node, ast.Attribute):
            return None
        if isinstance(node.value, ast.Name) and place.self_name and node.value.id == place.self_name:
            return self.names.method(place, node.attr)
        dotted = name_of(node.value)
        module = self.names.module_of(place.path, dotted, place) if dotted else None
        if module is None and isinstance(node.value, ast.Name) and not place.local(node.value.id):
            return self._of_class(place.path, node.value.id, node.attr)
        return self.names.function(module, node.attr) if module else None

    def _of_class(self, path: str, owner: str, name: str) -> Function | None:
        """The method that `Owner.name` means, where it can be called so: a class method or static method."""
        match self.names.bindings(path).get(owner, []):
            case [ast.ImportFrom() as node] if target := self.names.imported(path, node, owner):
                path, owner = target
        method = self.names.method(Place(path, Scope(), owner), name)
        return method if method is not None and decorated(method.node, "staticmethod", "classmethod") else None

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
        if not all(decorator_name(d) in _TRANSPARENT for d in node.decorator_list):
            return None
        self._active.append(key)
        notes, self.notes = self.notes, []
        root, self.root = self.root, 0
        try:
            self._results[key] = self._evaluate(function, known)
        finally:
            self._active.pop()
            notes, self.notes = self.notes, notes
            self.root = root
        if self._results[key] is not None:
            self.notes += notes
        return self._results[key]

    def _evaluate(self, function: Function, known: dict[str, ast.expr]) -> ast.expr | str | None:
        node = function.node
        if any(isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) for s in node.body for n in walk(s)):
            return None
        positional = [*node.args.posonlyargs, *node.args.args]
        method = bool(function.class_name) and not decorated(node, "staticmethod")
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
                case ast.Return(value=ast.Attribute() as value) if self._is_member(value, place) or (
                    name_of(value.value) == place.self_name != "" and self.purity(value)
                ):
                    found.append(value)
                case ast.If(test=test) if self.purity(test):
                    self.note(test, place, tested=True)
                    inner = [self._outcomes(place, branch, returnable) for branch in (node.body, node.orelse)]
                    if inner[0] is None or inner[1] is None:
                        return None
                    found += [*inner[0], *inner[1]]
                case ast.Assign() if self._private_store(node, place):
                    self.note(node.value, place)
                case ast.Pass() | ast.Global() | ast.Nonlocal():
                    pass
                case _:
                    return None
        return found

    def _is_member(self, node: ast.Attribute, place: Place) -> bool:
        local = place.local(name_of(node).partition(".")[0])
        return not local and member_of(self.names, place.path, node) is not None

    def _private_store(self, node: ast.Assign, place: Place) -> bool:
        """Whether an assignment only binds local names to something free of effects."""
        local = (isinstance(t, ast.Name) and t.id not in place.scope.shared for t in node.targets)
        return all(local) and self.purity(node.value)
