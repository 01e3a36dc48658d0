"""Whether something that only the head has can be told apart from the base while the switch is off."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Sequence
from dataclasses import replace

from validator.isolation.effects import statement_effects
from validator.isolation.offpath.classes import refused_field
from validator.isolation.offpath.compare import Context, Difference, Kind, Residue, added
from validator.isolation.offpath.constants import is_constant, name_of, value_of
from validator.isolation.offpath.decorators import only_wraps
from validator.isolation.offpath.fields import makes_plain_object
from validator.isolation.offpath.importing import Importing
from validator.isolation.offpath.lookups import Found, Lookups
from validator.isolation.offpath.losses import MARK
from validator.isolation.offpath.names import decorator_name
from validator.isolation.offpath.nodes import with_fields
from validator.isolation.offpath.place import place_at
from validator.isolation.offpath.raising import Raising
from validator.isolation.offpath.scopes import bound_names
from validator.isolation.offpath.world import World
from validator.isolation.syntax import nodes, unparse, walk

__all__ = ["Harmless"]

_LISTS = re.compile(rb"\bvars\(|\.__dict__\b|\basdict\(|\bastuple\(|\bdir\(self\b")
"""Code to which a new attribute shows, whatever its name."""

_ABSTRACT = frozenset({"abstractmethod", "abstractproperty", "abstractclassmethod", "abstractstaticmethod"})


class Harmless:
    """Judges statements that only the head has."""

    def __init__(self, old: str, path: str, base: World, head: World, read: frozenset[str], raises: Raising) -> None:
        self.old = old
        self.path = path
        self.base = base
        self.head = head
        self.used = base.sources.words(old).names
        """Names that the base module uses anywhere."""
        self.read = read
        """Attributes that what is left of the head's changed files reads."""
        self.raises = raises
        self.lookups = Lookups(raises.kinds, base.sources, old, path)
        self.imports = Importing(old, path, base, head, raises, self.lookups)

    def __call__(self, node: ast.stmt, at: Context) -> Sequence[Residue | Difference]:
        """Residue (harmless), a difference with its reason, or nothing: a difference that speaks for itself."""
        match node:
            case ast.Import() | ast.ImportFrom():
                return self.imports.added(node, at)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if at.kind in ("module", "class"):
                return self._definition(node, at)
            case ast.Assign(targets=[ast.Attribute() as target]) if at.kind == "function":
                return self._attribute_store(node, target, at)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if at.kind != "function":
                return self._name(node, name, value, at)
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if at.kind != "function":
                return self._name(node, name, value, at)
            case ast.Expr(value=ast.Constant(value=str(text))) if text.startswith(MARK):
                return [added(node, at, text.removeprefix(MARK).strip())]
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=[]) if at.kind == "module":
                return self._optional([*body, *orelse], handlers, at)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="add_argument")) as call):
                return self._option(node, call)
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Attribute(attr="add_argument_group"), args=args, keywords=[]),
            ) if all(map(is_constant, args)):
                return [Residue(Kind.NEW_NAME, f"`{name}`, a group of options", node.lineno)]
            case ast.Expr(value=ast.Dict(keys=[key], values=[value])):
                return self._entry(node, key, value, at)
        return ()

    def _may_raise(self, node: ast.stmt, at: Context, part: ast.expr) -> Difference:
        what = self.raises.sentence(part, self.path, self.path)
        return replace(added(node, at, what, undecided=True), raises=True)

    def reordered(self, node: ast.stmt, passed: Sequence[ast.stmt], at: Context) -> Sequence[Difference]:
        """An import that changes places with others: see `Importing`."""
        return self.imports.reordered(node, passed, at)

    def removed(self, node: ast.stmt, at: Context) -> Residue | None:
        """What only the base has, where nothing can tell that it is gone."""
        return self.imports.removed(node, at)

    def mixed_in(self, base: ast.expr, at: Context) -> Sequence[Residue | Difference] | None:
        """A new class above that holds nothing but new methods, as if the class itself had them; None: another one."""
        bound = self.head.names.bindings(self.path).get(base.id, []) if isinstance(base, ast.Name) else []
        match bound:
            case [ast.ClassDef(bases=[], keywords=[], decorator_list=[], body=body) as made]:
                pass
            case _:
                return None
        methods = [item for item in body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
        plain = all(item in methods or isinstance(item, ast.Pass) or _is_text(item) for item in body)
        if not plain or self.base.names.binds(self.old, made.name):
            return None
        found = [item for method in methods for item in self._definition(method, at)]
        return found or [Residue(Kind.NEW_DEFINITION, f"`{made.name}` stands above, and holds nothing", made.lineno)]

    def _optional(
        self, body: list[ast.stmt], handlers: list[ast.ExceptHandler], at: Context
    ) -> Sequence[Residue | Difference]:
        """`try: import x`, `except ImportError: x = None`: what it loads counts; that it may be lacking does not."""
        caught = {name_of(h.type) for h in handlers if h.type is not None}
        stores = [s for h in handlers for s in h.body]
        if not handlers or len(caught) != len(handlers) or not caught <= {"ImportError", "ModuleNotFoundError"}:
            return ()
        found: list[Residue | Difference] = []
        for statement in [*body, *stores]:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                for alias in statement.names:
                    single = ast.copy_location(with_fields(statement, names=[alias]), statement)
                    items = self.imports.added(single, at)
                    found += [replace(i, undecided=True) if isinstance(i, Difference) else i for i in items]
            elif isinstance(statement, ast.Assign) and is_constant(statement.value):
                items = self(statement, at)
                if not items:
                    return ()
                found += items
            elif not isinstance(statement, ast.Pass):
                return ()
        return found

    # Definitions -----------------------------------------------------------------------------------------------

    def _definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, at: Context
    ) -> Sequence[Residue | Difference]:
        if at.kind == "module" and (
            self.base.names.binds(self.old, node.name) or node.name in self.used or hasattr(builtins, node.name)
        ):
            return [added(node, at, f"`{node.name}` takes the place of a name that the base module uses")]
        here = place_at(self.head.sources, self.path, node.lineno, inside=False)
        for decorator in node.decorator_list:
            if at.owner is not None and decorator_name(decorator) in _ABSTRACT:
                what = f"no class below `{at.owner.name}` can be made any more that does not have `{node.name}`"
                return [added(decorator_place(node, decorator), at, what)]
            if not self.head.names.is_inert(self.path, decorator) and not only_wraps(self.head, decorator, here):
                plain = name_of(decorator.func if isinstance(decorator, ast.Call) else decorator)
                what = f"the decorator `{plain or unparse(decorator)}` gets `{node.name}` when the module is imported"
                return [added(decorator_place(node, decorator), at, what)]
        if at.kind == "module" and (taken := self.lookups.of_module(node.name)) is not None:
            return [self._found(node, at, taken)]
        if isinstance(node, ast.ClassDef):
            body: list[ast.stmt] = [with_fields(node, decorator_list=[])]
            effect = next(statement_effects(body, self.head.names.at(self.path)), None)
            if effect is not None:
                there = ast.Pass(lineno=effect.line, end_lineno=effect.line)
                return [added(there, at, f"`{node.name}` {effect.what} when it is made")]
            if (field := refused_field(node)) is not None:
                return [added(field, at, f"`{node.name}` cannot be made with this field as it stands")]
            if (hook := self.lookups.subclass_hook(node)) is not None:
                return [self._found(node, at, hook)]
        else:
            defaults = [d for d in [*node.args.defaults, *node.args.kw_defaults] if d]
            if not all(map(self.head.purity, defaults)):
                return [added(node, at, "a default argument calls something when the module is imported")]
            part = next((p for d in defaults if (p := self.raises.part(d, here)) is not None), None)
            if part is not None:
                return [self._may_raise(node, at, part)]
        if at.kind == "class" and node.name == self.head.form.switch.name and not self._gives_off(node):
            return [added(node, at, f"the switch `{node.name}` is worked out by code here")]
        if at.kind == "class":
            found = self._discovered(node, node.name, at)
            if found:
                return found
        what = "method" if at.kind == "class" else "class" if isinstance(node, ast.ClassDef) else "function"
        return [
            Residue(
                Kind.NEW_DEFINITION, f"new {what} `{node.name}`, which nothing that was there before uses", node.lineno
            )
        ]

    def _gives_off(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
        """Whether all that is left of a property is that it gives the switch's default."""
        left = [s for s in node.body if not isinstance(s, ast.Pass | ast.Expr)]
        declared = self.head.form.switch.default
        match left:
            case []:
                return declared is None
            case [ast.Return(value=value)] if is_constant(value):
                return _same(value_of(value), declared)
        return False

    def _found(self, node: ast.stmt, at: Context, found: Found) -> Difference:
        return added(node, at, found.why, found.lookup, undecided=found.undecided)

    def _discovered(self, node: ast.stmt, name: str, at: Context) -> Sequence[Difference]:
        """A new member that base code finds by its name, or that overrides one."""
        if name.startswith("__") and name.endswith("__"):
            return [added(node, at, f"`{name}` is called by the interpreter, not by name", undecided=True)]
        look = self.lookups
        asked = (look.of_the_framework, look.of_the_maker, look.closed, look.in_the_body)
        other = next((f for ask in asked if (f := ask(at.owner, name))), None) or look.by_computed_name(name)
        if other is not None:
            return [self._found(node, at, other)]
        ancestor = self._overridden(name, at)
        if ancestor:
            return [added(node, at, f"`{name}` overrides `{ancestor[0]}`", ancestor[1])]
        by_text = re.compile(rb"[\"']" + re.escape(name.encode()) + rb"[\"']")
        by_read = re.compile(rb"\." + re.escape(name.encode()) + rb"\b")
        for pattern in (by_text, by_read):
            for path in self.base.sources.mentions(name):
                data = self.base.sources.data(path)
                match = pattern.search(data)
                if match:
                    line = data.count(b"\n", 0, match.start()) + 1
                    return [added(node, at, f"shared code looks up `{name}` by name", f"{path}:{line}", undecided=True)]
        return ()

    def _overridden(self, name: str, at: Context) -> tuple[str, str] | None:
        todo = [name_of(b).split(".")[-1] for b in at.owner.bases] if at.owner else []
        seen: set[str] = set()
        while todo:
            base = todo.pop()
            if not base or base in seen or len(seen) > 50:
                continue
            seen.add(base)
            for path in self.base.sources.mentions(base):
                if not re.search(rb"\bclass\s+" + base.encode() + rb"\b", self.base.sources.data(path)):
                    continue
                module = self.base.sources.parse(path).module
                for found in walk(module) if module else ():
                    if isinstance(found, ast.ClassDef) and found.name == base:
                        todo += [name_of(b).split(".")[-1] for b in found.bases]
                        for item in found.body:
                            if name in bound_names([item]):
                                return f"{base}.{name}", f"{path}:{item.lineno}"
        return None

    # Stores and names ------------------------------------------------------------------------------------------

    def _attribute_store(self, node: ast.Assign, target: ast.Attribute, at: Context) -> Sequence[Residue | Difference]:
        name, value = target.attr, node.value
        fact = name in self.head.facts.attributes or any(key[2] == name for key in self.head.facts.of_class)
        plain = self.head.purity(value) or makes_plain_object(self.head.names, value, self.path)
        if not plain or not (fact or not self.base.sources.mentions(name)):
            return ()
        if not fact and name in self.read:
            shown = f"`.{name}` is set to `{unparse(value)}`, so what reads it is not decided by the switch"
            return [added(node, at, shown)]
        part = self.raises.store(node, target, place_at(self.head.sources, self.path, node.lineno))
        if part is not None:
            return [self._may_raise(node, at, part)]
        owner = self._class_around(at)
        meant = self.lookups.of_the_framework(owner, name)
        if meant is None and owner is not None and name_of(value).startswith("self.") and self.lookups.outside(owner):
            what = f"`.{name}` is a second name for `{unparse(value)}`"
            meant = Found(f"{what}, and a class above that registers parts sees both")
        if meant is not None:
            return [self._found(node, at, meant)]
        listed = self._listed(node, name, at)
        if listed:
            return listed
        return [
            Residue(
                Kind.ATTRIBUTE_STORE,
                f"`.{name} = {unparse(value)}` is stored; no code of the base reads it",
                node.lineno,
            )
        ]

    def _listed(self, node: ast.stmt, name: str, at: Context) -> Sequence[Difference]:
        """Whether the same file goes over all attributes."""
        data = self.base.sources.data(self.old)
        listed = _LISTS.search(data)
        if listed is None:
            return ()
        reason = f"`.{name}` is a new attribute, and the same file lists attributes"
        line = data.count(b"\n", 0, listed.start()) + 1
        return [added(node, at, reason, f"{self.old}:{line}", undecided=True)]

    def _class_around(self, at: Context) -> ast.ClassDef | None:
        """The class of the method that a statement stands in."""
        module = self.head.sources.parse(self.path).module
        name = at.inside.split(".")[0] if "." in at.inside else ""
        return next((c for c in nodes(module, ast.ClassDef) if c.name == name), None)

    def _name(self, node: ast.stmt, name: str, value: ast.expr | None, at: Context) -> Sequence[Residue | Difference]:
        if at.kind == "module":
            if self.base.names.binds(self.old, name) or name in self.used or hasattr(builtins, name):
                return ()
            if value is not None and not self.head.purity(value):
                return [added(node, at, f"the value of `{name}` runs code when the module is imported")]
            if (taken := self.lookups.of_module(name)) is not None:
                return [self._found(node, at, taken)]
            part = value and self.raises.part(value, place_at(self.head.sources, self.path, node.lineno))
            if part:
                return [self._may_raise(node, at, part)]
            return [Residue(Kind.NEW_NAME, f"new name `{name}`", node.lineno)]
        if (closed := self.lookups.closed(at.owner, name)) is not None:
            return [self._found(node, at, closed)]
        if at.owner is not None and (field := refused_field(at.owner)) is not None and node_name(field) == name:
            return [added(node, at, f"`{at.owner.name}` cannot be made with this field as it stands")]
        if isinstance(node, ast.AnnAssign) and (moved := self.lookups.field_out_of_order(at.owner, name)) is not None:
            return [self._found(node, at, moved)]
        if isinstance(node, ast.AnnAssign) and (read := self.lookups.read_off_options(at.owner, name)) is not None:
            return [self._found(node, at, read)]
        switch = self.head.form.switch
        if name == switch.name:
            return self._switch_default(node, value, at)
        if value is None:
            if at.owner and (at.owner.decorator_list or at.owner.bases):
                return [added(node, at, f"`{name}` is a new field without a default")]
            return [Residue(Kind.ANNOTATION, f"`{name}` is declared", node.lineno)]
        if not self.head.purity(value):
            return [added(node, at, f"the value of `{name}` runs code when the module is imported")]
        others = self._discovered(node, name, at) or self._listed(node, name, at)
        if others:
            return others
        part = self.raises.part(value, place_at(self.head.sources, self.path, node.lineno))
        if part is not None:
            return [self._may_raise(node, at, part)]
        kind = Kind.NEW_FIELD if isinstance(node, ast.AnnAssign) else Kind.ATTRIBUTE_STORE
        return [Residue(kind, f"new class attribute `{name}` = {unparse(value)}", node.lineno)]

    def _switch_default(self, node: ast.stmt, value: ast.expr | None, at: Context) -> Sequence[Residue | Difference]:
        """The switch's own definition: what stands there must be what the manifest says."""
        declared = self.head.form.switch.default
        given = value
        if isinstance(value, ast.Call):
            given = next((k.value for k in value.keywords if k.arg == "default"), value.args[0] if value.args else None)
        if (
            given is None
            or not is_constant(given)
            or value_of(given) != declared
            or type(value_of(given)) is not type(declared)
        ):
            shown = unparse(given) if given is not None else "nothing"
            return [added(node, at, f"the switch's default is {shown} here and {declared!r} in the manifest")]
        return [
            Residue(
                Kind.NEW_FIELD,
                f"the switch `{node_name(node)}`, off by default: it shows in `repr`, comparison and conversions",
                node.lineno,
            )
        ]

    def _option(self, node: ast.stmt, call: ast.Call) -> Sequence[Residue | Difference]:
        """The switch among the options of the command line, off by default."""
        switch = self.head.form.switch
        first = call.args[0] if call.args else None
        parts = (*call.args, *(k.value for k in call.keywords))
        plain = all(isinstance(part, ast.Constant | ast.Name | ast.List | ast.Tuple) for part in parts)
        name = str(value_of(first)).lstrip("-").replace("-", "_") if isinstance(first, ast.Constant) else ""
        given = {k.arg: k.value for k in call.keywords}
        flag = value_of(given.get("action")) == "store_true"
        default = value_of(given["default"]) if "default" in given else False if flag else None
        if name != switch.name or not plain or not _same(default, switch.default):
            return ()
        return [Residue(Kind.NEW_NAME, f"the option `--{name}`, off by default", node.lineno)]

    def _entry(
        self, node: ast.stmt, key: ast.expr | None, value: ast.expr, at: Context
    ) -> Sequence[Residue | Difference]:
        name = value_of(key) if key is not None else None
        if not isinstance(name, str) or not self.head.purity(value):
            return ()
        if name == self.head.form.switch.name:
            declared = self.head.form.switch.default
            if isinstance(value, ast.Lambda | ast.Name):
                given = self.head.of_getter(self.path, value)
                if given is None or value_of(given) not in (declared, *_OFF.get(declared, ())):
                    shown = "is not known" if given is None else f"is {unparse(given)}"
                    what = f"what the switch's entry here gives {shown} while it is off, and not {declared!r}"
                    return [added(node, at, what)]
            if is_constant(value) and not _same(value_of(value), declared):
                shown = f"the switch's entry here is {unparse(value)}, and its default in the manifest {declared!r}"
                return [added(node, at, shown)]
            return [Residue(Kind.NEW_NAME, f"the switch `{name}` among its kind", node.lineno)]
        reason = f"a new entry `{name}` in a table that shared code looks up by key"
        return [added(node, at, reason, f"{self.path}:{node.lineno}", undecided=True)]


_OFF: dict[object, tuple[object, ...]] = {
    False: (None, "", 0),
    None: (False, ""),
    "0": (False, 0, None, ""),
    "": (False, None),
}
"""Default → what a table may make of it while it is off."""


def _same(value: object, declared: object) -> bool:
    return value == declared and type(value) is type(declared)


def node_name(node: ast.stmt) -> str:
    """Name that a store in a class body binds."""
    target = (
        node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
    )
    return target.id if isinstance(target, ast.Name) else ""


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def decorator_place(node: ast.stmt, decorator: ast.expr) -> ast.stmt:
    """A statement that stands where the decorator does."""
    return ast.copy_location(ast.Expr(value=decorator), decorator)
