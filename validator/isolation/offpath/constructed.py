"""Whether every object of a class has what its constructor sets: whoever makes one without it, or runs a method on
something else, finds the attribute missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from validator.isolation.offpath.classes import leads_above, method_of
from validator.isolation.offpath.constants import name_of
from validator.isolation.offpath.passed import assigned_by, passed
from validator.isolation.offpath.place import Place, place_at
from validator.isolation.syntax import functions, nodes, unparse, walk

if TYPE_CHECKING:
    from validator.isolation.offpath.kinds import Class, Kinds

__all__ = ["Constructed"]

_ASKS_ABOUT = frozenset({"inspect", "hasattr", "getattr", "isinstance", "signature", "id", "print", "issubclass"})
"""Functions that look at a method and do not run it."""
_STATE = ("__getstate__", "__setstate__")


class Constructed:
    """Asks the classes of one tree, and the code that makes their objects."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.sources = kinds.world.sources
        self._made: dict[tuple[str, str], str] = {}
        self._borrowed: dict[tuple[str, str, str], str] = {}

    def has(self, owner: Class, family: Sequence[Class], attr: str, place: Place, line: int) -> bool:
        """Whether every constructor has set the attribute by now. `family`: the class and those above it."""
        own = any(one.node.name == place.class_name and one.path == place.path for one in family)
        if own and place.function is not None and place.self_name:
            if f"{place.self_name}.{attr}" in passed(place.function, line).attributes:
                return True
            if place.function.name in ("__init__", "__new__", "__post_init__", "__init_subclass__"):
                return False
            if not all(self._set_before_call(one.node, place.function.name, attr) for one in family):
                return False
        return self._sets(family, attr) and not self._deleted(attr) and not self._doubt(owner, family, attr, place, own)

    def _sets(self, family: Sequence[Class], attr: str) -> bool:
        """Whether the constructor that runs first sets it, or calls one above that does."""
        for one in family:
            constructor = method_of(one.node, "__init__")
            if constructor is None:
                continue
            first = [*constructor.args.posonlyargs, *constructor.args.args][:1]
            if first and f"{first[0].arg}.{attr}" in assigned_by(constructor):
                return True
            if not leads_above(one.node, constructor, [other.node.name for other in family]):
                return False
        return False

    def _doubt(self, owner: Class, family: Sequence[Class], attr: str, place: Place, own: bool) -> bool:
        """Whether some object may lack it; remembered as a sentence."""
        key = (owner.path, owner.node.name)
        if key not in self._made:
            self._made[key] = self._made_otherwise(owner, family)
        found = self._made[key]
        if not found and own and place.function is not None:
            method = (*key, place.function.name)
            if method not in self._borrowed:
                self._borrowed[method] = self._lent(owner, place.function.name)
            found = self._borrowed[method]
        if found:
            self.kinds.doubts[attr] = found
        return bool(found)

    def _set_before_call(self, node: ast.ClassDef, method: str, attr: str) -> bool:
        """Whether the constructor, where it calls this method of its own object, has set the attribute by then."""
        constructor = method_of(node, "__init__")
        if constructor is None:
            return True
        first = next((a.arg for a in (*constructor.args.posonlyargs, *constructor.args.args)), "")
        uses = (n for n in walk(constructor) if isinstance(n, ast.Attribute) and n.attr == method)
        return all(f"{first}.{attr}" in passed(constructor, n.lineno).attributes for n in uses)

    def _deleted(self, attr: str) -> bool:
        pattern = re.compile(
            rb"\bdel\b[^\n]{0,500}\." + attr.encode() + rb"\b|delattr\([^\n]{0,500}[\"']" + attr.encode() + rb"[\"']"
        )
        return any(pattern.search(self.sources.data(p)) for p in self.sources.mentions(attr))

    # Objects made without it -----------------------------------------------------------------------------------

    def _made_otherwise(self, owner: Class, family: Sequence[Class]) -> str:
        """Who makes an object of the class without its constructor; empty: nobody does."""
        below = self.kinds.below(owner)
        names = {owner.node.name, *(one.node.name for one in below)}
        for one in below:
            if (found := self._skips(one, names)) is not None:
                return f"`{one.node.name}` ({one.path}:{found}) leaves out the constructor of `{owner.node.name}`"
        for one in (*family, *below):
            for line in _restored(one.node):
                return f"{one.path}:{line} makes objects of `{one.node.name}` without the constructor"
        for path in self._files(names, "__new__"):
            for call in nodes(self.sources.parse(path).module, ast.Call):
                named = _is_new(call) and self._called(path, names) & set(
                    map(_last, [*_receiver(call), *call.args[:1]])
                )
                if named and not self._is_filled(path, call):
                    return f"{path}:{call.lineno} makes an object of `{owner.node.name}` without the constructor"
        for path in self._files(names, "__init__"):
            for call in nodes(self.sources.parse(path).module, ast.Call):
                if _is_class(call, self._called(path, names)) and '"__init__"' in unparse(call).replace("'", '"'):
                    return f"{path}:{call.lineno} makes a class below `{owner.node.name}` with another constructor"
            for store in nodes(self.sources.parse(path).module, ast.Assign):
                if any(getattr(t, "attr", "") == "__init__" and _last(t.value) in names for t in store.targets):  # type: ignore[attr-defined]  # it has an attribute
                    return f"{path}:{store.lineno} replaces the constructor of `{owner.node.name}`"
        return ""

    def _called(self, path: str, names: set[str]) -> set[str]:
        """The names, and what this file calls them."""
        taken = nodes(self.sources.parse(path).module, ast.ImportFrom)
        return names | {a.asname for node in taken for a in node.names if a.name in names and a.asname}

    def _files(self, names: set[str], word: str) -> list[str]:
        """Files that mention one of the names, and the word."""
        named = {p for name in names for p in self.sources.mentions(name)}
        return sorted(p for p in named if word.encode() in self.sources.data(p))

    def _skips(self, one: Class, names: Collection[str]) -> int | None:
        """Line of a class below that runs another constructor instead of this one's; None: it runs it. `names`: of
        this class and those below."""
        for other in self.kinds.lineage(one):
            constructor = method_of(other.node, "__init__")
            if constructor is not None:
                known = other.node.name in names and other is not one
                return None if known or leads_above(other.node, constructor, names) else one.node.lineno
        return None

    def _is_filled(self, path: str, call: ast.Call) -> bool:
        """Whether the function takes over all attributes of another object, or runs the constructor afterwards."""
        around = [
            f for f in functions(self.sources.parse(path).module) if f.lineno <= call.lineno <= (f.end_lineno or 0)
        ]
        innermost = max(around, key=lambda f: f.lineno, default=None)
        return innermost is not None and _fills(innermost)

    # Methods run on something else -----------------------------------------------------------------------------

    def _lent(self, owner: Class, method: str) -> str:
        """Who runs a method of the class on an object that may be none of its own; empty: nobody does."""
        names = {owner.node.name, *(one.node.name for one in self.kinds.below(owner))}
        pattern = re.compile(
            rb"\b(?:"
            + b"|".join(re.escape(n.encode()) for n in sorted(names))
            + rb")\s*\.\s*"
            + method.encode()
            + rb"\b"
        )
        for path in self._files(names, method):
            if not pattern.search(self.sources.data(path)):
                continue
            module = self.sources.parse(path).module
            calls = {id(call.func): call for call in nodes(module, ast.Call)}
            for taken in _taken(module, names, method):
                call = calls.get(id(taken))
                if call is None or not self._is_own_object(call, path, names):
                    what = f"takes `{unparse(taken)}` for something that may be no `{owner.node.name}`"
                    return f"{path}:{taken.lineno} {what}"
        return ""

    def _is_own_object(self, call: ast.Call, path: str, names: set[str]) -> bool:
        """Whether the first argument is an object of one of these classes: `Base.forward(self, x)` in a class below."""
        first = call.args[0] if call.args else None
        if first is None:
            return False
        place = place_at(self.sources, path, call.lineno)
        kind = self.kinds.of(first, place)
        return getattr(getattr(kind, "node", None), "name", "") in names


def _taken(module: ast.Module | None, names: set[str], method: str) -> Iterator[ast.Attribute]:
    """Reads of `Name.method` that may run it: not those that only ask about it, or compare."""
    asked = {
        id(part)
        for call in nodes(module, ast.Call)
        if name_of(call.func).split(".")[0] in _ASKS_ABOUT
        for part in walk(call)
    }
    compared = {id(part) for node in nodes(module, ast.Compare) for part in (node.left, *node.comparators)}
    for node in nodes(module, ast.Attribute):
        named = node.attr == method and isinstance(node.ctx, ast.Load) and _last(node.value) in names
        if named and id(node) not in asked | compared:
            yield node


def _restored(node: ast.ClassDef) -> Iterator[int]:
    """Lines of a class body that make objects without the constructor, or restore them from part of their state."""
    for item in node.body:
        if not isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) or item.name == "__new__":
            continue
        if item.name in _STATE and not _fills(item):
            yield item.lineno
        yield from (c.lineno for c in walk(item) if isinstance(c, ast.Call) and _is_new(c) and not _fills(item))


def _fills(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the function handles all attributes of an object at once, or calls a constructor."""
    return any(isinstance(n, ast.Attribute) and n.attr in ("__dict__", "__init__") for n in walk(function))


def _is_new(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "__new__"


def _receiver(call: ast.Call) -> list[ast.expr]:
    return [call.func.value] if isinstance(call.func, ast.Attribute) else []


def _is_class(call: ast.Call, names: set[str]) -> bool:
    """`type("S", (Layer,), {...})`, `new_class("S", (Layer,), …)`."""
    made = _last(call.func) in ("type", "new_class") and len(call.args) >= 2
    bases = call.args[1].elts if made and isinstance(call.args[1], ast.Tuple) else []
    return any(_last(base) in names for base in bases)


def _last(node: ast.expr) -> str:
    return name_of(node).rpartition(".")[2]
