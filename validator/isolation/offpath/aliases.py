"""Attributes that are another name for something that stays what it is: `self._run = self._stock` in a constructor."""

from __future__ import annotations

import ast

from validator.isolation.offpath.classes import method_of
from validator.isolation.offpath.constants import name_of
from validator.isolation.offpath.freshness import is_stored_elsewhere
from validator.isolation.offpath.names import decorated
from validator.isolation.offpath.stores import Store
from validator.isolation.offpath.world import World
from validator.isolation.syntax import nodes, walk

__all__ = ["alias_of"]


def alias_of(world: World, store: Store) -> ast.expr | None:
    """What the attribute always stands for, going by one store of the constructor; None where that may change.

    A method of the class that nothing stores to, or an attribute that the constructor alone sets, once and before.
    """
    value = store.value
    if not (isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and store.class_name):
        return None
    module = world.sources.parse(store.path).module
    owner = next((c for c in nodes(module, ast.ClassDef) if c.name == store.class_name), None)
    constructor = method_of(owner, "__init__") if owner else None
    if owner is None or constructor is None or not constructor.args.args:
        return None
    own, name = constructor.args.args[0].arg, value.attr
    if value.value.id != own or not constructor.lineno <= store.line <= (constructor.end_lineno or 0):
        return None
    method = method_of(owner, name)
    if method is not None and not decorated(method, "property", "cached_property"):
        if _places(owner, name):
            return None
    elif len(_places(owner, name)) != 1 or not _set_before(constructor, own, name, store.line):
        return None
    if is_stored_elsewhere(world.sources, store.path, owner, name):
        return None
    return ast.copy_location(ast.Attribute(value=ast.Name(id="self", ctx=ast.Load()), attr=name, ctx=ast.Load()), value)


def _places(owner: ast.ClassDef, name: str) -> list[ast.Attribute]:
    """Stores to an attribute of this name anywhere in the class."""
    attributes = (n for n in walk(owner) if isinstance(n, ast.Attribute) and n.attr == name)
    return [n for n in attributes if not isinstance(n.ctx, ast.Load)]


def _set_before(constructor: ast.FunctionDef, own: str, name: str, line: int) -> bool:
    """Whether a statement of the constructor itself, before the line, sets the attribute."""
    plain = (s for s in constructor.body if isinstance(s, ast.Assign) and s.lineno < line)
    return any(name_of(target) == f"{own}.{name}" for statement in plain for target in statement.targets)
