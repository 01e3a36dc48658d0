"""Dictionaries that are written out and only read: which of their entries a constant key means."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from validator.isolation.offpath.constants import is_constant, value_of
from validator.isolation.syntax import walk

if TYPE_CHECKING:
    from validator.isolation.offpath.place import Place
    from validator.isolation.offpath.world import World

__all__ = ["entry_of", "holds", "table_of"]

_READS = ("get", "keys", "values", "items")


def table_of(world: World, node: ast.expr, place: Place) -> ast.Dict | None:
    """The display that an expression is or stands for: with constant keys, and nothing else can change it."""
    if isinstance(node, ast.Name):
        return _of_module(world, node, place)
    plain = isinstance(node, ast.Dict) and _is_table(node) and all(map(world.purity, node.values))
    return node if isinstance(node, ast.Dict) and plain else None


def holds(table: ast.Dict, key: ast.expr) -> bool:
    """Whether it has the constant as a key."""
    return value_of(key) in {value_of(k) for k in table.keys}


def entry_of(table: ast.Dict, key: ast.expr) -> ast.expr | None:
    """What stands under the constant; None: nothing."""
    return {value_of(k): v for k, v in zip(table.keys, table.values, strict=True)}.get(value_of(key))


def _is_table(node: ast.Dict) -> bool:
    return bool(node.keys) and all(key is not None and is_constant(key) for key in node.keys)


def _of_module(world: World, node: ast.Name, place: Place) -> ast.Dict | None:
    """Of a name that only the head has, in one file that does nothing but read it."""
    if place.local(node.id) or node.id in place.hidden or node.id not in world.fresh:
        return None
    value: ast.expr | None = None
    match world.names.bindings(place.path).get(node.id, []):
        case [ast.Assign(targets=[ast.Name()], value=shown)] | [ast.AnnAssign(value=shown)]:
            value = shown
    if not isinstance(value, ast.Dict) or not _is_table(value):
        return None
    portable = (is_constant(v) or (isinstance(v, ast.Name) and _means_one(world, v, place)) for v in value.values)
    known = all(portable) and world.sources.mentions(node.id) == (place.path,)
    return value if known and _only_read(world.sources.parse(place.path).module, node.id) else None


def _means_one(world: World, node: ast.Name, place: Place) -> bool:
    """Whether the name means the same function, class or module here as where the table is made."""
    bound = world.names.bindings(place.path).get(node.id, [])
    made = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return len(bound) == 1 and isinstance(bound[0], made) and not place.local(node.id)


def _only_read(module: ast.Module | None, name: str) -> bool:
    """Whether every use of the name in this module reads a key or looks for one."""
    if module is None:
        return False
    read: set[int] = set()
    for node in walk(module):
        match node:
            case ast.Attribute(value=owner, attr=attr) if attr in _READS:
                read.add(id(owner))
            case ast.Subscript(value=owner, ctx=ast.Load()):
                read.add(id(owner))
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[owner]):
                read.add(id(owner))
    named = [n for n in walk(module) if isinstance(n, ast.Name) and n.id == name]
    held = any(isinstance(n, ast.Attribute) and n.attr == name for n in walk(module))
    return not held and all(id(n) in read for n in named if not isinstance(n.ctx, ast.Store))
