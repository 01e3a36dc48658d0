"""What an expression is, as far as annotations and constructors in the source text say: class, instance, module."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from validator.isolation.offpath.classes import in_body, intercepts, method_of, refuses_store, stores_of
from validator.isolation.offpath.constants import name_of
from validator.isolation.offpath.constructed import Constructed
from validator.isolation.offpath.handed import class_handed
from validator.isolation.offpath.place import Place
from validator.isolation.offpath.providers import MEMBERS, standard
from validator.isolation.offpath.scopes import Scope
from validator.isolation.syntax import nodes, unparse, walk

if TYPE_CHECKING:
    from validator.isolation.offpath.names import Names
    from validator.isolation.offpath.world import World

__all__ = ["Builtin", "Class", "External", "Kind", "Kinds", "Module"]

_DEPTH = 8
_LOOKED_AT = 20
"""Files of the base in which the same read is looked for."""


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the tree, or an object of it."""

    path: str
    node: ast.ClassDef
    instance: bool = True


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the tree."""

    path: str


@dataclass(frozen=True, slots=True)
class External:
    """A module that is not in the tree, or something in one."""

    dotted: str


@dataclass(frozen=True, slots=True)
class Builtin:
    """An object of a builtin type."""

    type: type


Kind = Class | Module | External | Builtin


class Kinds:
    """Looks up kinds in one tree. What is not sure is None."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.assumed: set[str] = set()
        """Sentences: annotations that were taken at their word."""
        self.doubts: dict[str, str] = {}
        """Attribute → why some object may lack it, or take its store for something else."""
        self._constructed = Constructed(self)
        self._below: dict[int, tuple[Class, ...]] = {}

    # What an expression is -------------------------------------------------------------------------------------

    def of(self, node: ast.expr, place: Place, depth: int = 0) -> Kind | None:
        """What the expression gives."""
        if depth > _DEPTH:
            return None
        match node:
            case ast.Constant(value=value):
                return None if value is None else Builtin(type(value))
            case ast.Dict() | ast.List() | ast.Set() | ast.Tuple() | ast.JoinedStr():
                return Builtin({ast.Dict: dict, ast.List: list, ast.Set: set, ast.Tuple: tuple}.get(type(node), str))
            case ast.Name(id=name):
                return self._name(name, node.lineno, place, depth)
            case ast.Attribute(value=value, attr=attr):
                owner = self.of(value, place, depth + 1)
                return self._member(owner, attr, depth + 1) if owner else None
            case ast.Call(func=function):
                called = self.of(function, place, depth + 1)
                if isinstance(called, Class) and not called.instance:
                    return Class(called.path, called.node)
                known = self.world.function(function, place)
                if known and known.node.returns and isinstance(known.node, ast.FunctionDef):
                    return self.annotated(known.node.returns, known.path, f"what `{known.qualified}` gives", depth + 1)
        return None

    def held(self, node: ast.expr, place: Place) -> str:
        """`config.x` of a local name that only ever holds that; empty when it may hold something else."""
        if not isinstance(node, ast.Name) or place.function is None or place.scope.bindings[node.id] != 1:
            return ""
        for part in walk(place.function):
            match part:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == node.id:
                    return unparse(value) if name_of(value) or isinstance(value, ast.Attribute) else ""
        return ""

    def _name(self, name: str, line: int, place: Place, depth: int) -> Kind | None:
        if name in place.hidden:
            return None
        if place.self_name and name == place.self_name and place.scope.bindings[name] <= 1:
            return self._class(place.path, place.class_name)
        if place.function is not None and not place.module_level and name in place.scope.bindings:
            return self._local(name, line, place, depth)
        if place.outer is not None and name in place.outer.scope.bindings:
            return self._name(name, place.function.lineno if place.function else line, place.outer, depth)
        return self.bound(place.path, name, depth)

    def _local(self, name: str, line: int, place: Place, depth: int) -> Kind | None:
        function = place.function
        if function is None or place.scope.bindings[name] != 1:
            return None
        if name in place.imports:
            return self._imported(place.path, place.imports[name], name, depth)
        arguments = function.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.arg == name:
                what = f"`{name}` of `{place.qualified}`"
                owner = class_handed(self.world.sources, place, name) if argument.annotation is None else None
                if owner is not None:
                    return Class(place.path, owner)
                return self.annotated(argument.annotation, place.path, what, depth + 1)
        for node in walk(function):
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    return self.of(value, place, depth + 1)
                case ast.NamedExpr(target=ast.Name(id=target), value=value) if target == name:
                    return self.of(value, place, depth + 1)
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
                    return self.of(value, place, depth + 1)
        return None

    def bound(self, path: str, name: str, depth: int = 0) -> Kind | None:
        """What a module binds the name to, when it does so once."""
        nodes = self.world.names.bindings(path).get(name, [])
        if len(nodes) != 1 or depth > _DEPTH or self.world.names.binds(path, "*"):
            return None
        match nodes[0]:
            case ast.ClassDef() as node:
                return Class(path, node, instance=False)
            case ast.Import() | ast.ImportFrom() as node:
                return self._imported(path, node, name, depth)
            case ast.Assign(targets=[ast.Name()], value=value):
                place = Place(path, Scope())
                place.module_level = True
                return self.of(value, place, depth + 1)
            case ast.AnnAssign(annotation=annotation):
                return self.annotated(annotation, path, f"`{name}`", depth + 1)
        return None

    def _imported(self, path: str, node: ast.Import | ast.ImportFrom, name: str, depth: int) -> Kind | None:
        sources = self.world.sources
        if isinstance(node, ast.Import):
            dotted = next((a.name for a in node.names if a.asname == name), name)
            found = sources.module_path(dotted)
            return Module(found) if found else External(dotted)
        module = sources.resolve(path, node)
        original = next((a.name for a in node.names if (a.asname or a.name) == name), name)
        inside = sources.module_path(f"{module}.{original}")
        if inside:
            return Module(inside)
        found = sources.module_path(module)
        return self.bound(found, original, depth + 1) if found else External(f"{module}.{original}")

    def annotated(self, node: ast.expr | None, path: str, what: str, depth: int) -> Kind | None:
        """What an annotation promises; remembered as an assumption. An optional one promises nothing."""
        found = self._promised(node, path, depth)
        if found is not None and node is not None:
            self.assumed.add(f"{what} is what its annotation `{unparse(node)}` says")
        return found

    def _promised(self, node: ast.expr | None, path: str, depth: int) -> Kind | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None
        if isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name) and isinstance(kind := getattr(builtins, node.id, None), type):
            return None if self.world.names.binds(path, node.id) else Builtin(kind)
        if not isinstance(node, ast.Name | ast.Attribute):
            return None
        place = Place(path, Scope())
        place.module_level = True
        found = self.of(node, place, depth + 1)
        return Class(found.path, found.node) if isinstance(found, Class) and not found.instance else None

    # Members ---------------------------------------------------------------------------------------------------

    def _class(self, path: str, name: str) -> Class | None:
        found = self.bound(path, name)
        return Class(path, found.node) if isinstance(found, Class) else None

    def lineage(self, kind: Class) -> Iterator[Class]:
        """The class and those of its ancestors that are in the tree."""
        todo, seen = [kind], set[tuple[str, str]]()
        while todo:
            one = todo.pop(0)
            if (one.path, one.node.name) in seen:
                continue
            seen.add((one.path, one.node.name))
            yield one
            place = Place(one.path, Scope())
            place.module_level = True
            for base in one.node.bases:
                found = self.of(base, place)
                if isinstance(found, Class):
                    todo.append(Class(found.path, found.node, kind.instance))

    def below(self, owner: Class) -> tuple[Class, ...]:
        """Classes of the tree below this one, however far; those outside the isolated paths."""
        if id(owner.node) not in self._below:
            found: list[Class] = []
            todo = [owner]
            while todo:
                for one in self._directly_below(todo.pop()):
                    if all(one.node is not known.node for known in (owner, *found)):
                        found.append(one)
                        todo.append(one)
            self._below[id(owner.node)] = tuple(found)
        return self._below[id(owner.node)]

    def _directly_below(self, owner: Class) -> Iterator[Class]:
        name, sources = owner.node.name, self.world.sources
        word = re.escape(name.encode("utf-8", "surrogateescape"))
        named = re.compile(
            rb"\bclass\s+\w+\s*\([^)]{0,2000}\b"
            + word
            + rb"\b|\b"
            + word
            + rb"\s+as\b|=\s*(?:[\w.]+\.)?"
            + word
            + rb"\b"
        )
        for path in sources.mentions(name):
            if not named.search(sources.data(path)):
                continue
            for node in nodes(sources.parse(path).module, ast.ClassDef):
                if node is not owner.node and any(self._means(base, path, owner) for base in node.bases):
                    yield Class(path, node)

    def _means(self, base: ast.expr, path: str, owner: Class) -> bool:
        """Whether an expression for a base class is this class; where that cannot be told, its name decides."""
        base = base.value if isinstance(base, ast.Subscript) else base
        place = Place(path, Scope())
        place.module_level = True
        found = self.of(base, place)
        return found.node is owner.node if isinstance(found, Class) else name_of(base).split(".")[-1] == owner.node.name

    def _member(self, owner: Kind, attr: str, depth: int) -> Kind | None:
        if isinstance(owner, Module):
            return self.bound(owner.path, attr, depth)
        if isinstance(owner, External):
            return External(f"{owner.dotted}.{attr}")
        if not isinstance(owner, Class):
            return None
        for one in self.lineage(owner):
            for item in one.node.body:
                if isinstance(item, ast.AnnAssign) and getattr(item.target, "id", "") == attr:
                    annotation = self._present(item.annotation) if self._is_container(attr) else item.annotation
                    return self.annotated(annotation, one.path, f"`{one.node.name}.{attr}`", depth + 1)
            constructor = method_of(one.node, "__init__")
            if constructor is None:
                continue
            first = [*constructor.args.posonlyargs, *constructor.args.args][:1]
            place = Place(one.path, Scope.of(constructor.body, constructor.args), one.node.name)
            place.self_name = first[0].arg if first else ""
            place.function = constructor
            values = [v for t, v in stores_of(one.node) if t == attr]
            if len(values) == 1 and values[0] is not None:
                return self.of(values[0], place, depth + 1)
            if values:
                return None
        return None

    def _is_container(self, attr: str) -> bool:
        return attr == self.world.form.switch.container

    def _present(self, node: ast.expr) -> ast.expr:
        """The annotation without `None`: whether the switch's container is absent is a case of its own."""
        if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) and node.right.value is None:
            return node.left
        if isinstance(node, ast.Subscript) and name_of(node.value).split(".")[-1] == "Optional":
            return node.slice
        return node

    def has(self, owner: Kind, attr: str, place: Place, line: int) -> bool:
        """Whether reading this attribute of such a thing surely works at this place."""
        if isinstance(owner, Builtin):
            return hasattr(owner.type, attr)
        if isinstance(owner, Module):
            sources, path = self.world.sources, owner.path
            if self.world.names.binds(path, attr) or sources.module_path(f"{sources.module_name(path)}.{attr}"):
                return True
            return self.world.names.binds(path, "__getattr__") and re.search(
                rb"[\"']" + attr.encode() + rb"[\"']", sources.data(path)
            ) is not None  # fmt: skip
        if isinstance(owner, External):
            loaded = standard(owner.dotted)
            known = attr in MEMBERS.get(owner.dotted, ())
            return hasattr(loaded, attr) if loaded else known or self._named_before(place, attr)
        if hasattr(object, attr):
            return True
        family = list(self.lineage(owner))
        if any(in_body(one.node, "__getattribute__") for one in family):
            return False
        if any(in_body(one.node, attr) for one in family):
            return True
        return owner.instance and self._constructed.has(owner, family, attr, place, line)

    def read_alike(self, node: ast.Attribute, place: Place) -> bool:
        """Whether a file of the base reads the same off the same import."""
        text = name_of(node)
        first = text.partition(".")[0]
        names, base = self.world.names, self.world.sources.twin
        meant = self._import_of(names, place.path, first)
        if base is None or not meant or place.local(first):
            return False
        holding = [p for p in base.mentions(node.attr) if text.encode() in base.data(p)]
        before = type(names)(base)
        return any(self._import_of(before, path, first) == meant for path in holding[:_LOOKED_AT])

    def _import_of(self, names: Names, path: str, name: str) -> str:
        """What the module's only import of this name brings in, dotted."""
        match names.bindings(path).get(name, []):
            case [ast.Import() as node]:
                return next((a.name for a in node.names if a.asname == name), name)
            case [ast.ImportFrom() as node]:
                original = next((a.name for a in node.names if (a.asname or a.name) == name), name)
                return f"{names.sources.resolve(path, node)}.{original}"
        return ""

    def accepts(self, owner: Kind | None, attr: str) -> bool:
        """Whether a new attribute of this name can be stored on such a thing, and storing it runs nothing."""
        if not isinstance(owner, Class) or not owner.instance:
            return False
        if any(refuses_store(one.node, attr) for one in self.lineage(owner)):
            return False
        found = next((one for one in self.below(owner) if intercepts(one.node, attr)), None)
        if found is not None:
            self.doubts[attr] = f"`{found.node.name}` ({found.path}:{found.node.lineno}) has a way of its own to set it"
        return found is None

    def _named_before(self, place: Place, attr: str) -> bool:
        """Whether the file read this from something outside the tree already, at the base."""
        pattern = re.compile(rb"\." + re.escape(attr.encode()) + rb"\b")
        twin = self.world.sources.twin or self.world.sources
        return place.path in twin and pattern.search(twin.data(place.path)) is not None
