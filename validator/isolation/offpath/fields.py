"""Fields of dataclasses that have a constant default: handing a field its default is leaving it out."""

from __future__ import annotations

import ast
import re

from validator.isolation.offpath.classes import method_of
from validator.isolation.offpath.constants import is_constant, name_of, value_of
from validator.isolation.offpath.names import Names, decorated, decorator_name
from validator.isolation.offpath.place import Place
from validator.isolation.source import Sources
from validator.isolation.syntax import unparse

__all__ = ["class_of", "defaults_by_position", "field_defaults", "makes_plain_object"]

_FIELD = ("field", "Field", "dataclasses.field", "pydantic.Field")


def field_defaults(names: Names, function: ast.expr, place: Place) -> dict[str, ast.expr]:
    """Field → default of the dataclass that an expression means; empty where it means none for sure."""
    node = _dataclass(names, function, place)
    return _defaults(node) if node is not None else {}


def defaults_by_position(names: Names, function: ast.expr, place: Place) -> dict[int, ast.expr]:
    """Place among the constructor's arguments → default, of the dataclass without classes above that it means."""
    node = _dataclass(names, function, place)
    if node is None or node.bases:
        return {}
    known, fields = _defaults(node), [i for i in node.body if isinstance(i, ast.AnnAssign)]
    if any(isinstance(i.value, ast.Call) or re.search(r"ClassVar|KW_ONLY", unparse(i.annotation)) for i in fields):
        return {}  # some may be no arguments, or not by position
    given = [name_of(i.target) for i in fields]
    return {n: known[name] for n, name in enumerate(given) if name in known and given.count(name) == 1}


def _dataclass(names: Names, function: ast.expr, place: Place) -> ast.ClassDef | None:
    """The dataclass with the constructor that `dataclass` writes, where an expression means one for sure."""
    if not isinstance(function, ast.Name) or function.id in place.hidden:
        return None
    if function.id == place.self_name and place.function is not None and decorated(place.function, "classmethod"):
        node = class_of(names, place.path, place.class_name)
        if node is None or _has_subclass(names.sources, node.name):
            return None
    elif place.local(function.id):
        return None
    else:
        node = class_of(names, place.path, function.id)
    return node if node is not None and _is_plain(node) else None


def makes_plain_object(names: Names, call: ast.expr, path: str) -> bool:
    """Whether a call makes an object of a dataclass, or of a plain pydantic model, of which every field has a default
    that is a constant or a new container, and whose class runs nothing else: it has no effect and raises nothing.

    Arguments: only fields by name, of dataclasses, which take whatever they get.
    """
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
        return False
    node = class_of(names, path, call.func.id)
    if node is None or node.keywords or names.bindings(path).get(call.func.id) != [node]:
        return False  # what its decorator is called elsewhere was not looked up
    made = _is_plain(node) and not node.bases and names.is_inert(path, node.decorator_list[0])
    model = [name_of(b) for b in node.bases] in (["BaseModel"], ["pydantic.BaseModel"]) and not node.decorator_list
    if model and not names.comes_from_outside(path, name_of(node.bases[0]).partition(".")[0]):
        return False
    fields = [i for i in node.body if isinstance(i, ast.AnnAssign) and isinstance(i.target, ast.Name)]
    known = {i.target.id for i in fields if isinstance(i.target, ast.Name)}
    given = {k.arg for k in call.keywords}
    plain = all(
        i in fields or isinstance(i, ast.Pass) or (isinstance(i, ast.Expr) and isinstance(i.value, ast.Constant))
        for i in node.body
    )
    return (
        (made or model) and plain and (not given or (made and given <= known)) and all(map(_has_plain_default, fields))
    )


def _has_plain_default(field: ast.AnnAssign) -> bool:
    match field.value:
        case ast.Call(func=function, args=[], keywords=[ast.keyword(arg="default", value=value)]):
            return name_of(function) in _FIELD and is_constant(value)
        case ast.Call(func=function, args=[], keywords=[ast.keyword(arg="default_factory", value=ast.Name(id=made))]):
            return name_of(function) in _FIELD and made in ("list", "dict", "set")
    return is_constant(field.value)


def _has_subclass(sources: Sources, name: str) -> bool:
    heading = re.compile(rb"\bclass\s+\w+\s*\([^)]*\b" + re.escape(name.encode()) + rb"\b")
    return any(heading.search(sources.data(path)) for path in sources.mentions(name))


def class_of(names: Names, path: str, name: str, depth: int = 0) -> ast.ClassDef | None:
    """The class of the tree that a module's name means, when that is one for sure."""
    if names.binds(path, "*") or depth > 5:
        return None
    match names.bindings(path).get(name, []):
        case [ast.ClassDef() as node]:
            return node
        case [ast.ImportFrom() as node] if target := names.imported(path, node, name):
            return class_of(names, *target, depth + 1)
    return None


def _is_plain(node: ast.ClassDef) -> bool:
    """Whether its constructor is the one that `dataclass` writes."""
    made = [d for d in node.decorator_list if decorator_name(d) == "dataclass"]
    options = {k.arg: value_of(k.value) for d in made if isinstance(d, ast.Call) for k in d.keywords}
    own = method_of(node, "__init__") or method_of(node, "__new__")
    return len(made) == 1 and options.get("init", True) is True and own is None


def _defaults(node: ast.ClassDef) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.value is not None:
            value: ast.expr | None = item.value
            if isinstance(value, ast.Call) and name_of(value.func).split(".")[-1] in ("field", "Field"):
                options = {k.arg: k.value for k in value.keywords}
                value = options.get("default") if set(options) <= {"default", "repr", "compare"} else None
            found.pop(item.target.id, None)
            if value is not None and is_constant(value):
                found[item.target.id] = value
        elif isinstance(item, ast.Assign):
            for target in item.targets:
                found.pop(name_of(target), None)
    return found
