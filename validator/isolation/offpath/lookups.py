"""Who may find something new without naming it: hooks of base classes, frameworks, computed names, star imports."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from validator.isolation.blast.imports import When, imports_of, scan
from validator.isolation.blast.radius import target_path
from validator.isolation.offpath.constants import name_of
from validator.isolation.offpath.frameworks import MEANINGS
from validator.isolation.offpath.kinds import Class, External, Kinds
from validator.isolation.offpath.names import decorator_name
from validator.isolation.offpath.place import Place
from validator.isolation.offpath.scopes import Scope
from validator.isolation.source import Sources
from validator.isolation.syntax import nodes, unparse, walk

__all__ = ["Found", "Lookups"]

_CLOSED = frozenset({"Enum", "StrEnum", "IntEnum", "Flag", "IntFlag"})
_MAKING = frozenset({"__new__", "__init__", "__prepare__"})
"""Methods of a metaclass that get the members."""
_LISTS_MEMBERS = re.compile(r"\b(?:vars|dir|getmembers|getmembers_static)\(|__dict__|__annotations__")
_EVERY_FIELD = re.compile(
    rb"\bfields\([^\n]{0,200}\n(?:[^\n]{0,200}\n){0,6}?[^\n]{0,200}\bgetattr\(\s*\w*(?:args|opts|options|namespace)\b"
)
"""`fields(cls)`, and within some lines `getattr(args, …)`."""
_BY_POSITION = frozenset({"NamedTuple"})


@dataclass(frozen=True, slots=True)
class Found:
    """Somebody who may find it."""

    why: str
    lookup: str = ""
    """`path:line` of the code that finds it."""
    undecided: bool = True


class Lookups:
    """Asks the base's files and the classes above."""

    def __init__(self, kinds: Kinds, base: Sources, old: str, path: str) -> None:
        self.kinds = kinds
        self.base = base
        self.old = old
        """The file at the base."""
        self.path = path
        """The same at the head."""

    # Classes -------------------------------------------------------------------------------------------------------

    def lineage(self, node: ast.ClassDef) -> list[Class]:
        """The class and those above it that are in the tree."""
        return list(self.kinds.lineage(Class(self.path, node, instance=False)))

    def outside(self, node: ast.ClassDef) -> list[str]:
        """Dotted names of the classes above it that are not in the tree; `?` where that cannot be told."""
        found: list[str] = []
        for one in self.lineage(node):
            place = Place(one.path, Scope())
            place.module_level = True
            for base in one.node.bases:
                kind = self.kinds.of(base, place)
                if not isinstance(kind, Class):
                    plain = name_of(base.value if isinstance(base, ast.Subscript) else base)
                    found.append(kind.dotted if isinstance(kind, External) else plain or "?")
        return [name for name in found if name not in ("object", "Generic", "typing.Generic", "ABC", "abc.ABC")]

    def of_the_framework(self, node: ast.ClassDef | None, name: str) -> Found | None:
        """A class from outside that gives the name a meaning of its own."""
        for dotted in self.outside(node) if node is not None else ():
            owner, _, last = dotted.rpartition(".")
            known = getattr(sys.modules.get(owner), last, None) if owner in sys.stdlib_module_names else None
            if name in MEANINGS.get(last, ()) or (isinstance(known, type) and hasattr(known, name)):
                return Found(f"`{name}` has a meaning of its own in `{dotted}`, which `{node.name if node else ''}` is")
        return None

    def subclass_hook(self, node: ast.ClassDef) -> Found | None:
        """Something above that sees new subclasses."""
        for one in self.lineage(node):
            own = one.node is node
            where = f"{one.path}:{one.node.lineno}"
            metaclass = next((k.value for k in one.node.keywords if k.arg == "metaclass"), None)
            if metaclass is not None and name_of(metaclass).split(".")[-1] not in ("ABCMeta", "EnumMeta"):
                return Found(f"`{node.name}` is made by the metaclass of `{one.node.name}`", where)
            if own:
                continue
            for item in one.node.body:
                if getattr(item, "name", "") == "__init_subclass__":
                    return Found(f"`{node.name}` is found through `__init_subclass__`", f"{one.path}:{item.lineno}")
            for path in self.base.mentions("__subclasses__"):
                data = self.base.data(path)
                if path == one.path or re.search(rb"\b" + one.node.name.encode() + rb"\b", data):
                    line = data.count(b"\n", 0, data.find(b"__subclasses__")) + 1
                    return Found(f"`{node.name}` is found through `__subclasses__`", f"{path}:{line}")
        return None

    def of_the_maker(self, node: ast.ClassDef | None, name: str) -> Found | None:
        """What looks at all members when the class is made: a metaclass, a hook of a class above, its decorator."""
        if node is None:
            return None
        for one in self.lineage(node):
            place = Place(one.path, Scope())
            place.module_level = True
            makers = [k.value for k in one.node.keywords if k.arg == "metaclass"]
            found = (self.kinds.of(made, place) for made in makers)
            looking = [(kind.path, item) for kind in found if isinstance(kind, Class) for item in kind.node.body
                       if getattr(item, "name", "") in _MAKING]  # fmt: skip
            hooks = one.node.body if one.node is not node else []
            looking += [(one.path, item) for item in hooks if getattr(item, "name", "") == "__init_subclass__"]
            decorators = [self.kinds.world.function(_plain(d), place) for d in one.node.decorator_list]
            looking += [(f.path, f.node) for f in decorators if f is not None]
            for path, item in looking:
                if getattr(item, "name", "") in _MAKING or _LISTS_MEMBERS.search(unparse(item)):
                    return Found(f"`{name}` is seen by what makes `{node.name}`", f"{path}:{item.lineno}")
        return None

    def closed(self, node: ast.ClassDef | None, name: str) -> Found | None:
        """A class of which the number or the order of members counts."""
        if node is None:
            return None
        above = {dotted.rpartition(".")[2] for dotted in self.outside(node)}
        if above & _CLOSED:
            return Found(f"`{name}` is a new member of an enumeration, which others go over", undecided=False)
        if above & _BY_POSITION:
            return Found(f"`{name}` is a new field of a tuple: others may unpack it")
        if "runtime_checkable" in map(decorator_name, node.decorator_list):
            return Found(f"`{name}` is a new member of a protocol that is checked at run time", undecided=False)
        return None

    def in_the_body(self, node: ast.ClassDef | None, name: str) -> Found | None:
        """The class body itself reads the name, which meant something global: `def list(self)` above `-> list[int]`."""
        old = self._at_base(node)
        names = (n for part in _evaluated(old) for n in walk(part) if isinstance(n, ast.Name)) if old else ()
        line = next((n.lineno for n in names if n.id == name), None)
        if line is None:
            return None
        why = f"`{name}` takes the place of a name that the body of `{old.name if old else ''}` reads"
        return Found(why, f"{self.old}:{line}")

    def _at_base(self, node: ast.ClassDef | None) -> ast.ClassDef | None:
        """The base's class of the same name."""
        before = nodes(self.base.parse(self.old).module, ast.ClassDef)
        return next((c for c in before if node is not None and c.name == node.name), None)

    def field_out_of_order(self, node: ast.ClassDef | None, name: str) -> Found | None:
        """A new field of a dataclass that moves others to another position."""
        if node is None or "dataclass" not in map(decorator_name, node.decorator_list):
            return None
        old = self._at_base(node)
        known = set(_fields(old)) if old else set()
        fields = list(_fields(node))
        if known & set(fields[fields.index(name) + 1 :] if name in fields else ()):
            return Found(f"`{name}` stands before fields that are given by position", undecided=False)
        below = re.compile(rb"^class[ \t]+(\w+)[^\n]*\b" + node.name.encode() + rb"\b[^\n]*:", re.M)
        for path in self.base.mentions(node.name):
            match = below.search(self.base.data(path))
            if match:
                line = self.base.data(path).count(b"\n", 0, match.start()) + 1
                return Found(f"`{name}` moves the fields of `{match[1].decode()}` by one position", f"{path}:{line}")
        return None

    def read_off_options(self, node: ast.ClassDef | None, name: str) -> Found | None:
        """Code of the class's file that reads every field off parsed arguments, where the head has no such option."""
        match = _EVERY_FIELD.search(self.base.data(self.old)) if node is not None else None
        if match is None or b"hasattr(" in self.base.data(self.old)[match.start() : match.end() + 200]:
            return None
        head = self.kinds.world.sources
        option = re.compile(rb"(?:[\"']--(?:no-)?|\bdest=[\"'])" + name.encode().replace(b"_", b"[-_]") + rb"[\"']")
        words = {*head.mentions(name), *head.mentions(name.replace("_", "-"))}
        if any(option.search(head.data(path)) for path in words):
            return None
        why = f"`{name}` is read off the parsed arguments like every field, and no option has its name"
        return Found(why, f"{self.old}:{_line(self.base.data(self.old), match.start())}")

    # Names ---------------------------------------------------------------------------------------------------------

    def by_computed_name(self, name: str) -> Found | None:
        """A lookup by a name that is put together: `getattr(model, f"visit_{kind}")`."""
        parts = [name[: match.end()] for match in re.finditer(r"_", name.rstrip("_")) if match.start()]
        for part in parts:
            start = part.encode()
            shape = re.compile(rb"(?<=f[\"'])%b\{|(?<=[\"'])%b[\"']|(?<=[\"'])%b%%s" % ((re.escape(start),) * 3))
            path = self.base.holding(start, shape)
            if path:
                data = self.base.data(path)
                why = f"shared code puts together names that begin with `{part}`"
                match = shape.search(data)
                return Found(why, f"{path}:{_line(data, match.start() if match else 0)}")
        return None

    def of_module(self, name: str) -> Found | None:
        """Who finds a new name of the module: star imports, `getattr`, Python itself."""
        if name in ("__all__", "__getattr__", "__dir__"):
            return Found(f"`{name}` decides what others get from this module", undecided=False)
        for path in self.base.mentions(name):
            data = self.base.data(path)
            match = re.search(rb"\b(?:getattr|hasattr)\([^\n]*[\"']" + re.escape(name.encode()) + rb"[\"']", data)
            if match:
                return Found(f"shared code looks up `{name}` by name", f"{path}:{_line(data, match.start())}")
            line = self._imported_in(path, name)
            if line is not None:
                return Found(f"shared code imports `{name}`, which this module did not have", f"{path}:{line}")
        if not name.startswith("_"):
            for path, line in self._star_imports:
                return Found(f"`{path}` takes every name of this module", f"{path}:{line}")
        return None

    def taken_from_here(self, name: str) -> bool:
        """Whether some file of the base takes a name out of this module, or may: by import, attribute, text or star."""
        module = self.base.module_name(self.old).rpartition(".")[2]
        other_name = re.compile(rf"\b{re.escape(module)}[ \t]+as[ \t]+(\w+)".encode())
        for path in self.base.mentions(module):
            data = self.base.data(path)
            called = b"|".join({module.encode(), *other_name.findall(data)})
            if re.search(rb"\b(?:" + called + rb")\s*\.\s*" + name.encode() + rb"\b", data):
                return True
            if self._imported_in(path, name) is not None:
                return True
        return bool(self._star_imports) and not name.startswith("_")

    def _imported_in(self, path: str, name: str) -> int | None:
        """Line on which a file of the base takes the name from this module, as `try: from engine.a import fast`."""
        if not any(name in found.names for found in scan(self.base.data(path))):
            return None
        taken = (i for i in imports_of(self.base, path) if i.name == name and i.when is not When.TYPE_CHECKING)
        return next((i.line for i in taken if target_path(self.base, i) == self.old), None)

    @cached_property
    def _star_imports(self) -> tuple[tuple[str, int], ...]:
        """Where the base takes every name of this module."""
        name = self.base.module_name(self.old).rpartition(".")[2].encode("utf-8", "surrogateescape")
        named = (path for path in self.base.mentions("import *") if name in self.base.data(path))
        stars = ((path, found) for path in named for found in imports_of(self.base, path) if found.name == "*")
        return tuple((path, found.line) for path, found in stars if target_path(self.base, found) == self.old)


def _plain(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _line(data: bytes, at: int) -> int:
    return data.count(b"\n", 0, at) + 1


def _evaluated(node: ast.ClassDef) -> Iterator[ast.AST]:
    """What is worked out among the names of a class body: not what functions and classes in it do inside."""
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (*item.decorator_list, item.args, *([item.returns] if item.returns else []))
        elif isinstance(item, ast.ClassDef):
            yield from (*item.decorator_list, *item.bases, *item.keywords)
        else:
            yield item


def _fields(node: ast.ClassDef) -> Iterator[str]:
    return (i.target.id for i in node.body if isinstance(i, ast.AnnAssign) and isinstance(i.target, ast.Name))
