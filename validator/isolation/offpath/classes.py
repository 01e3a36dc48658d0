"""What a class says of its attributes: fields, methods, slots, what its constructor sets and calls."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from validator.isolation.offpath.constants import name_of
from validator.isolation.offpath.passed import evaluated_by
from validator.isolation.offpath.scopes import bound_names
from validator.isolation.syntax import unparse, walk

__all__ = [
    "in_body",
    "intercepts",
    "leads_above",
    "method_of",
    "refused_field",
    "refuses_store",
    "stores_of",
]

_FIELDS = frozenset({"dataclass", "dataclasses", "pydantic_dataclass", "define", "frozen", "attrs", "config"})
_FIELD_BASES = frozenset({"BaseModel", "NamedTuple", "BaseSettings", "Struct"})
_CLOSED_BASES = _FIELD_BASES | {"Enum", "StrEnum", "IntEnum", "Flag", "tuple", "str", "int"}
_BINDERS = (ast.Assign, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def method_of(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((i for i in node.body if isinstance(i, ast.FunctionDef) and i.name == name), None)


def in_body(node: ast.ClassDef, attr: str) -> bool:
    """Whether the class itself has the attribute: a method, a value, or a field that a constructor always sets."""
    decorators = {name_of(d.func if isinstance(d, ast.Call) else d).split(".")[-1] for d in node.decorator_list}
    fields = bool(decorators & _FIELDS) or any(name_of(b).split(".")[-1] in _FIELD_BASES for b in node.bases)
    for item in node.body:
        if isinstance(item, ast.AnnAssign):
            if getattr(item.target, "id", "") == attr and (item.value is not None or fields):
                return True
        elif isinstance(item, _BINDERS) and attr in bound_names([item]):
            return True
    return False


def refuses_store(node: ast.ClassDef, attr: str) -> bool:
    """Whether the class may refuse the store or do something of its own: slots, frozen fields, properties, hooks."""
    for item in node.body:
        if any(n in ("__slots__", "__setattr__", "__getattribute__") for n in bound_names([item])):
            return True
        if attr in bound_names([item]) and not isinstance(item, ast.AnnAssign | ast.Assign):
            return True
        if isinstance(item, ast.Assign) and attr in bound_names([item]) and not isinstance(item.value, ast.Constant):
            return True  # may be a descriptor
    options = [k for d in node.decorator_list if isinstance(d, ast.Call) for k in d.keywords] + node.keywords
    if any(k.arg in ("frozen", "slots") for k in options) or any(k.arg == "metaclass" for k in node.keywords):
        return True
    return any(name_of(b).split(".")[-1] in _CLOSED_BASES for b in node.bases)


def stores_of(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None]]:
    """(attribute, value) of every store through the first parameter of a method; None: not in the constructor."""
    for item in node.body:
        if not isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) or not item.args.args:
            continue
        first = item.args.args[0].arg
        for part in walk(item):
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and name_of(part.value) == first:
                assigned = next((a for a in walk(item) if isinstance(a, ast.Assign) and part in a.targets), None)
                yield part.attr, assigned.value if assigned and item.name == "__init__" else None


def intercepts(node: ast.ClassDef, attr: str) -> bool:
    """Whether a class below does something of its own where the attribute is set or read."""
    hooks = ("__setattr__", "__getattribute__")
    return any(getattr(i, "name", "") in (*hooks, attr) for i in node.body)


def leads_above(node: ast.ClassDef, constructor: ast.FunctionDef, names: Collection[str]) -> bool:
    """Whether the class's constructor, on every path, calls one of those above; `names`: of the classes that may be
    named. `nn.Module.__init__(self)` and `super(Above, self).__init__()` pass over what lies between."""
    for text in evaluated_by(constructor):
        owner, _, called = text.rpartition(".")
        if called == "__init__" and (
            owner in ("super()", f"super({node.name}, self)", "super(__class__, self)")
            or owner.rpartition(".")[2] in names
        ):
            return True
    return False


def refused_field(node: ast.ClassDef) -> ast.AnnAssign | None:
    """The first field for which making the class is an error: one without a default behind one that has it, a default
    of a dataclass that all objects would share. Fields of classes above are not looked at."""
    made = [d for d in node.decorator_list if name_of(d.func if isinstance(d, ast.Call) else d).endswith("dataclass")]
    tuple_ = any(name_of(b).endswith("NamedTuple") for b in node.bases)
    options = {k.arg for d in made if isinstance(d, ast.Call) for k in d.keywords}
    given = False
    for item in node.body if made or tuple_ else ():
        if not isinstance(item, ast.AnnAssign) or "ClassVar" in unparse(item.annotation):
            continue
        if "KW_ONLY" in unparse(item.annotation):
            options.add("kw_only")
        default = _field_default(item.value)
        if made and isinstance(item.value, ast.List | ast.Dict | ast.Set):
            return item
        if default is False and given and "kw_only" not in options:
            return item
        given |= default is True
    return None


def _field_default(value: ast.expr | None) -> bool | None:
    """Whether a field has a default; None: it is no argument of the constructor, or not by position."""
    if not (isinstance(value, ast.Call) and name_of(value.func).endswith("field")):
        return value is not None
    options = {k.arg for k in value.keywords}
    return None if options & {"init", "kw_only"} else bool(options & {"default", "default_factory"})
