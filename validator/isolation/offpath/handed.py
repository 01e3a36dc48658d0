"""Parameters without annotation that always get the object of one class: from helpers of `self` and from wrappers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from validator.isolation.offpath.place import Place
from validator.isolation.offpath.scopes import FunctionNode
from validator.isolation.source import Sources
from validator.isolation.syntax import nodes, walk

__all__ = ["class_handed"]

_MAKING = ("__init__", "__new__", "__post_init__", "__init_subclass__")
"""Methods in which the object may lack attributes yet."""


def class_handed(sources: Sources, place: Place, name: str) -> ast.ClassDef | None:
    """The class, in the place's own file, of which the parameter is an object in every use; None: that is not sure."""
    function = place.function
    outer = place.outer.function if place.outer is not None else None
    if function is None or place.class_name:
        return None
    maker, module = outer or function, sources.parse(place.path).module
    if sources.mentions(maker.name) != (place.path,):
        return None
    positions = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    if name not in positions or (outer is not None and positions[0] != name):
        return None
    uses = [n for n in nodes(module, ast.Name) if n.id == maker.name and isinstance(n.ctx, ast.Load)]
    owners: list[ast.ClassDef] = []
    for owner in nodes(module, ast.ClassDef):
        for method in (m for m in owner.body if isinstance(m, ast.FunctionDef) and m.name not in _MAKING):
            found = _wrapped(method, maker.name) if outer else _called(method, maker.name, positions.index(name))
            owners += [owner for _ in found]
    return owners[0] if owners and len(owners) == len(uses) and len({id(o) for o in owners}) == 1 else None


def _wrapped(method: FunctionNode, decorator: str) -> Iterator[ast.expr]:
    """The decorator on an ordinary method."""
    if len(method.decorator_list) == 1 and method.args.args:
        yield from (d for d in method.decorator_list if isinstance(d, ast.Name) and d.id == decorator)


def _called(method: FunctionNode, name: str, position: int) -> Iterator[ast.expr]:
    """Calls that hand over the method's own object."""
    plain = not method.decorator_list and method.args.args
    for node in walk(method) if plain else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            given = node.args[position] if len(node.args) > position else None
            if isinstance(given, ast.Name) and given.id == method.args.args[0].arg:
                yield node
